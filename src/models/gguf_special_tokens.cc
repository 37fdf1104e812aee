#include "models/gguf_special_tokens.h"

#include <algorithm>
#include <array>

#include "base/json.h"
#include "models/gguf_keys.h"

namespace quaver::models {

namespace {

namespace keys = gguf_tokenizer_keys;

// By the spellings that chat formats use; a file often states only the end of text.
constexpr std::array<std::string_view, 4> kTurnEnds = {"<|im_end|>", "<|eot_id|>", "<end_of_turn>",
                                                       "<|end|>"};
constexpr int64_t kControlToken = 3;

std::vector<std::string_view> token_list(const GgufFile& file) {
  auto tokens = file.find_strings(keys::kTokens);
  require(tokens.has_value(), ErrorKind::kNotFound, file.path().string(), ": carries no vocabulary (",
          keys::kTokens, ")");
  return *std::move(tokens);
}

std::optional<int64_t> find_id(const GgufFile& file, const char* key, size_t vocabulary) {
  std::optional<int64_t> id = file.find_integer(key);
  require(!id || (*id >= 0 && *id < static_cast<int64_t>(vocabulary)), ErrorKind::kBadFile,
          file.path().string(), ": ", key, " is ", id.value_or(0), ", outside the vocabulary of ",
          vocabulary);
  return id;
}

void add_once(std::vector<int64_t>& ids, std::optional<int64_t> id) {
  if (id && std::ranges::find(ids, *id) == ids.end()) ids.push_back(*id);
}

template <class To, class From>
std::vector<To> converted(const std::optional<std::vector<From>>& values) {
  std::vector<To> result;
  if (values) result.assign(values->begin(), values->end());
  return result;
}

std::optional<int32_t> narrowed(std::optional<int64_t> id) {
  return id ? std::optional(static_cast<int32_t>(*id)) : std::nullopt;
}

}  // namespace

bool is_turn_end(std::string_view token) { return std::ranges::find(kTurnEnds, token) != kTurnEnds.end(); }

GgufSpecialTokens gguf_special_tokens(const GgufFile& file) {
  if (!file.find(keys::kTokens)) return {};  // a file of weights alone
  std::vector<std::string_view> tokens = token_list(file);
  auto id = [&](const char* key) { return find_id(file, key, tokens.size()); };
  GgufSpecialTokens special{.bos = id(keys::kBos), .unk = id(keys::kUnknown), .pad = id(keys::kPad)};
  add_once(special.eos, id(keys::kEos));
  add_once(special.eos, id(keys::kEot));
  add_once(special.eos, id(keys::kEom));
  auto types = file.find_integers(keys::kTypes);
  for (size_t i = 0; types && i < std::min(tokens.size(), types->size()); ++i)
    if ((*types)[i] == kControlToken && is_turn_end(tokens[i]))
      add_once(special.eos, static_cast<int64_t>(i));
  return special;
}

std::string gguf_checked_text(const GgufFile& file, std::string_view key, std::string_view text) {
  try {
    (void)json(text).dump();
  } catch (const json::exception&) {
    fail(ErrorKind::kBadFile, file.path().string(), ": ", key, " is not UTF-8");
  }
  return std::string(text);
}

std::string gguf_token_text(const GgufFile& file, int64_t id) {
  return gguf_checked_text(file, keys::kTokens, token_list(file).at(static_cast<size_t>(id)));
}

GgufVocabulary gguf_vocabulary(const GgufFile& file) {
  std::vector<std::string_view> tokens = token_list(file);
  auto id = [&](const char* key) { return narrowed(find_id(file, key, tokens.size())); };
  return {.model = std::string(file.string(keys::kModel)),
          .pre = std::string(file.find_string(keys::kPre).value_or("")),
          .tokens = {tokens.begin(), tokens.end()},
          .scores = converted<float>(file.find_numbers(keys::kScores)),
          .types = converted<int32_t>(file.find_integers(keys::kTypes)),
          .merges = converted<std::string>(file.find_strings(keys::kMerges)),
          .bos = id(keys::kBos),
          .eos = id(keys::kEos),
          .unk = id(keys::kUnknown),
          .pad = id(keys::kPad),
          .add_bos = file.find_boolean(keys::kAddBos).value_or(file.string(keys::kModel) == "llama"),
          .add_eos = file.find_boolean(keys::kAddEos).value_or(false),
          .add_space_prefix = file.find_boolean(keys::kAddSpace).value_or(true)};
}

}  // namespace quaver::models
