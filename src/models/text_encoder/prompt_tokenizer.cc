#include "models/text_encoder/prompt_tokenizer.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <optional>
#include <span>

#include "base/json.h"
#include "models/text_encoder/clip_tokenizer.h"
#include "models/text_encoder/tokenizer_settings.h"
#include "models/tokenizer_files.h"

namespace quaver::models {

namespace {

namespace fs = std::filesystem;

std::unique_ptr<Tokenizer> open_prompt_tokenizer(const fs::path& folder) {
  if (!fs::exists(folder / "tokenizer.json") && has_clip_tokenizer(folder))
    return open_clip_tokenizer(folder);
  return open_tokenizer(folder.string());
}

int32_t padding_token(const Tokenizer& tokenizer, const TokenizerSettings& settings,
                      const std::string& folder) {
  const std::optional<std::string> token = settings.special_token("pad_token");
  require(token.has_value(), ErrorKind::kBadFile, folder, ": names no pad_token, expected one in ",
          "tokenizer_config.json or special_tokens_map.json");
  const std::optional<int32_t> id = tokenizer.token_id(*token);
  require(id.has_value(), ErrorKind::kBadFile, folder, ": pad_token '", *token, "' is not in the vocabulary");
  return *id;
}

void check_sides(const TokenizerSettings& settings, const std::string& folder) {
  for (const char* key : {"padding_side", "truncation_side"}) {
    const std::string side = settings.text(key);
    require(side.empty() || side == "right", ErrorKind::kUnsupported, folder, ": ", key, " is '", side,
            "', expected 'right'");
  }
}

}  // namespace

PromptTokenizer::PromptTokenizer(const fs::path& folder) : tokenizer_(open_prompt_tokenizer(folder)) {
  const TokenizerSettings settings(folder);
  pad_ = padding_token(*tokenizer_, settings, folder.string());
  check_sides(settings, folder.string());
  find_special_tokens(folder.string());
  const json document = parse_json(tokenizer_->to_tokenizer_json(), folder.string());
  word_end_ = json_value<std::string>(document.at("model"), "end_of_word_suffix", "", folder.string());
}

// Told by what is put around a text.
void PromptTokenizer::find_special_tokens(const std::string& folder) {
  const std::vector<int32_t> bare = tokenizer_->encode("a", false), whole = tokenizer_->encode("a", true);
  const auto found = std::ranges::search(whole, bare);
  require(!found.empty(), ErrorKind::kUnsupported, folder,
          ": the tokenizer puts its special tokens within a text, expected them around it");
  before_.assign(whole.begin(), found.begin());
  after_.assign(found.end(), whole.end());
}

EncodedPrompt PromptTokenizer::encode(std::string_view prompt, int64_t tokens) const {
  const int64_t room = tokens - std::ssize(before_) - std::ssize(after_);
  require(room >= 0, ErrorKind::kInternal, tokens, " tokens have no room for the special ones");
  const std::vector<int32_t> all = tokenizer_->encode(prompt, /*add_special_tokens=*/false);
  const auto kept = std::span(all).first(static_cast<size_t>(std::min<int64_t>(room, std::ssize(all))));
  const auto dropped = std::span(all).subspan(kept.size());
  EncodedPrompt out{.ids = at::full({1, tokens}, pad_, at::kLong),
                    .length = std::ssize(before_) + std::ssize(kept) + std::ssize(after_),
                    .dropped_tokens = std::ssize(dropped),
                    .dropped_text = decoded(dropped)};
  int64_t* next = out.ids.mutable_data_ptr<int64_t>();
  next = std::ranges::copy(before_, next).out;
  next = std::ranges::copy(kept, next).out;
  std::ranges::copy(after_, next);
  return out;
}

std::string PromptTokenizer::decoded(std::span<const int32_t> ids) const {
  const std::string text = tokenizer_->decode(ids, /*skip_special_tokens=*/false);
  if (word_end_.empty()) return text;
  std::string words;
  std::string_view rest = text;
  for (size_t end; (end = rest.find(word_end_)) != std::string_view::npos;) {
    words.append(rest.substr(0, end)).push_back(' ');
    rest.remove_prefix(end + word_end_.size());
  }
  words += rest;
  while (words.ends_with(' ')) words.pop_back();
  return words;
}

}  // namespace quaver::models
