// WordLevel: one id per whole word.
#pragma once

#include <string>

#include "text/tokenizer/token_model.h"

namespace quaver::text {

class WordLevelModel : public TokenModel {
 public:
  WordLevelModel(Vocabulary vocabulary, std::string unk_token);
  void encode(std::string_view word, bool allow_special, std::vector<int32_t>& ids) const override;

 private:
  std::string unk_token_;
  std::optional<int32_t> unk_id_;
};

// From the "model" object of a tokenizer.json.
std::unique_ptr<TokenModel> make_word_level_model(const json& spec, std::string_view what);

}  // namespace quaver::text
