// WordPiece: the longest known piece at each step, as BERT does.
#pragma once

#include <string>

#include "text/tokenizer/token_model.h"

namespace quaver::text {

struct WordPieceOptions {
  std::string unk_token = "[UNK]", continuing_subword_prefix = "##";
  size_t max_input_chars_per_word = 100;  // longer words are unknown
};

class WordPieceModel : public TokenModel {
 public:
  WordPieceModel(Vocabulary vocabulary, WordPieceOptions options);
  void encode(std::string_view word, bool allow_special, std::vector<int32_t>& ids) const override;

 private:
  bool encode_pieces(std::string_view word, bool allow_special, std::vector<int32_t>& ids) const;
  WordPieceOptions options_;
  std::optional<int32_t> unk_id_;
};

// From the "model" object of a tokenizer.json.
std::unique_ptr<TokenModel> make_word_piece_model(const json& spec, std::string_view what);

}  // namespace quaver::text
