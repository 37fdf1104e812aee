// Look-up of whole words.
#include "text/tokenizer/word_level_model.h"

#include "base/error.h"
#include "text/tokenizer/model_fields.h"
#include "text/tokenizer/shown.h"

namespace quaver::text {

WordLevelModel::WordLevelModel(Vocabulary vocabulary, std::string unk_token)
    : unk_token_(std::move(unk_token)) {
  vocabulary_ = std::move(vocabulary);
  unk_id_ = vocabulary_.find(unk_token_);
}

void WordLevelModel::encode(std::string_view word, bool allow_special, std::vector<int32_t>& ids) const {
  const auto id = vocabulary_.find(word);
  if (id && (allow_special || !is_special(*id))) return ids.push_back(*id);
  if (!unk_id_)
    fail(ErrorKind::kBadFile, "the text has a word that the tokenizer does not know, and its unknown token '",
         shown(unk_token_), "' is not in the vocabulary");
  ids.push_back(*unk_id_);
}

std::unique_ptr<TokenModel> make_word_level_model(const json& spec, std::string_view what) {
  return std::make_unique<WordLevelModel>(read_vocabulary(spec, what),
                                          json_required<std::string>(spec, "unk_token", what));
}

}  // namespace quaver::text
