// The unigram language model of SentencePiece: the most probable way to cut a word into pieces.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer/flat_map.h"
#include "text/tokenizer/token_model.h"
#include "text/tokenizer/word_cache.h"

namespace quaver::text {

struct UnigramPiece {
  std::string text;
  double score;  // logarithm of a probability
};

class UnigramModel : public TokenModel {
 public:
  // Throws Error(kBadFile) beginning with `what` when `unk_id` is not the place of a piece.
  UnigramModel(const std::vector<UnigramPiece>& pieces, std::optional<int64_t> unk_id, bool byte_fallback,
               std::string_view what);
  void encode(std::string_view word, bool allow_special, std::vector<int32_t>& ids) const override;

 private:
  // The best way to cut the text before a position.
  struct Best {
    double score = 0;
    int32_t id = -1;     // of the last piece; -1: none ends here
    uint32_t start = 0;  // of the last piece
  };
  std::vector<Best> best_paths(std::string_view word, bool allow_special) const;
  void add_to_trie(std::string_view text, int32_t id);
  void append_piece(std::string_view piece, int32_t id, std::vector<int32_t>& ids) const;
  void segment(std::string_view word, bool allow_special, std::vector<int32_t>& ids) const;

  std::vector<double> scores_;
  FlatMap<uint32_t> children_;         // node << 8 | byte
  std::vector<int32_t> piece_at_{-1};  // by node
  std::optional<int32_t> unk_id_;
  double unk_score_ = 0;
  std::vector<int32_t> byte_ids_;            // empty without byte fallback
  mutable std::array<WordCache, 2> caches_;  // without and with special tokens
};

// From the "model" object of a tokenizer.json.
std::unique_ptr<TokenModel> make_unigram_model(const json& spec, std::string_view what);

}  // namespace quaver::text
