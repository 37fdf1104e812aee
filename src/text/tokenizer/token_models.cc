// The table of model kinds.
#include "base/error.h"
#include "text/tokenizer/bpe_model.h"
#include "text/tokenizer/model_fields.h"
#include "text/tokenizer/shown.h"
#include "text/tokenizer/token_model.h"
#include "text/tokenizer/unigram_model.h"
#include "text/tokenizer/word_level_model.h"
#include "text/tokenizer/word_piece_model.h"

namespace quaver::text {
namespace {

struct Row {
  std::string_view type;
  std::unique_ptr<TokenModel> (*make)(const json&, std::string_view);
};
constexpr Row kTable[] = {
    {"BPE", make_bpe_model},
    {"Unigram", make_unigram_model},
    {"WordPiece", make_word_piece_model},
    {"WordLevel", make_word_level_model},
};

// Files of before 2020 don't say.
std::string guess_type(const json& spec) {
  if (spec.contains("merges")) return "BPE";
  if (spec.contains("vocab") && spec.at("vocab").is_array()) return "Unigram";
  return spec.contains("max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

}  // namespace

std::unique_ptr<TokenModel> make_token_model(const json& spec, std::string_view what) {
  require(spec.is_object(), ErrorKind::kBadFile, what, ": the key 'model' is not an object");
  const std::string type = spec.contains("type") ? read_type(spec, what) : guess_type(spec);
  for (const Row& row : kTable)
    if (type == row.type) return row.make(spec, what);
  fail(ErrorKind::kBadFile, what, ": unknown model '", shown(type), "'");
}

}  // namespace quaver::text
