// Reading of added tokens, and the search for them.
#include "text/tokenizer/added_tokens.h"

#include <algorithm>

#include "base/error.h"
#include "text/tokenizer/component_limits.h"
#include "text/tokenizer/model_fields.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/shown.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/utf8.h"

namespace quaver::text {
namespace {

AddedToken read_token(const json& spec, const Normalizer* normalizer, std::string_view what) {
  require(spec.is_object(), ErrorKind::kBadFile, what, ": an added token is not an object");
  AddedToken token;
  token.content = json_required<std::string>(spec, "content", what);
  require(token.content.size() <= kMaxAffixBytes, ErrorKind::kBadFile, what, ": an added token has ",
          token.content.size(), " bytes; the limit is ", kMaxAffixBytes);
  token.id = static_cast<int32_t>(read_count(spec, "id", Vocabulary::kMaxId + 1, Vocabulary::kMaxId, what));
  require(token.id <= Vocabulary::kMaxId, ErrorKind::kBadFile, what, ": added token '", shown(token.content),
          "' has no id");
  token.single_word = json_value(spec, "single_word", false, what);
  token.lstrip = json_value(spec, "lstrip", false, what);
  token.rstrip = json_value(spec, "rstrip", false, what);
  token.special = json_value(spec, "special", false, what);
  token.normalized = json_value(spec, "normalized", !token.special, what);
  NormalizedText normal{token.content, 0, growth_limit(token.content.size())};
  if (token.normalized && normalizer) normalizer->apply(normal);
  token.normal = std::move(normal.text);
  return token;
}

// \w of Rust's regex crate.
bool is_word_character(std::string_view character) {
  static const Regex word =
      Regex::compile_pcre2("[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}]", "the pattern of words");
  return word.find(character, 0).has_value();
}

size_t previous_character(std::string_view text, size_t position) {
  do --position;
  while (position > 0 && (text[position] & 0xC0) == 0x80);
  return position;
}

bool is_single_word(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && is_word_character(
                       text.substr(previous_character(text, begin), begin - previous_character(text, begin))))
    return false;
  return end == text.size() || !is_word_character(text.substr(end, utf8_length(text[end])));
}

size_t spaces_before(std::string_view text, size_t begin) {
  while (begin > 0) {
    size_t position = previous_character(text, begin);
    const size_t start = position;
    if (!is_whitespace(utf8_next(text, position))) break;
    begin = start;
  }
  return begin;
}

size_t spaces_after(std::string_view text, size_t end) {
  while (end < text.size()) {
    size_t position = end;
    if (!is_whitespace(utf8_next(text, position))) break;
    end = position;
  }
  return end;
}

}  // namespace

void TokenTrie::add(std::string_view text, size_t index, std::string_view what) {
  require(!text.empty(), ErrorKind::kBadFile, what, ": the normalizer leaves nothing of an added token");
  uint32_t node = 0;
  for (const char c : text) {
    const uint64_t key = static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(c);
    const uint32_t* child = children_.find(key);
    if (child) {
      node = *child;
      continue;
    }
    children_.insert_or_assign(key, nodes_);
    node = nodes_++;
    entry_.push_back(-1);
  }
  require(entry_[node] < 0, ErrorKind::kBadFile, what, ": two added tokens look alike: '", shown(text), "'");
  entry_[node] = static_cast<int64_t>(index);
}

std::pair<size_t, size_t> TokenTrie::longest_at(std::string_view text, size_t position) const {
  std::pair<size_t, size_t> best{0, 0};
  uint32_t node = 0;
  for (size_t i = position; i < text.size(); ++i) {
    const uint32_t* child = children_.find(static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(text[i]));
    if (!child) break;
    node = *child;
    if (entry_[node] >= 0) best = {static_cast<size_t>(entry_[node]), i + 1 - position};
  }
  return best;
}

AddedTokens::AddedTokens(const json& list, const TokenModel& model, const Normalizer* normalizer,
                         std::string_view what) {
  require(list.is_null() || list.is_array(), ErrorKind::kBadFile, what, ": 'added_tokens' is not a list");
  for (const json& spec : list) {
    AddedToken token = read_token(spec, normalizer, what);
    if (token.content.empty()) continue;
    const auto known = model.vocabulary().find(token.content);
    // The reference numbers tokens that the model lacks itself: from the model's size on.
    const int32_t expected =
        known.value_or(std::max(id_bound_, static_cast<int32_t>(model.vocabulary().size())));
    require(token.id == expected, ErrorKind::kBadFile, what, ": added token '", shown(token.content),
            "' has id ", token.id, ", expected ", expected,
            known ? " as in the model's vocabulary" : ", the next one free");
    require(by_content_.emplace(token.content, tokens_.size()).second, ErrorKind::kBadFile, what,
            ": added token '", token.content, "' is listed twice");
    by_id_.emplace(token.id, tokens_.size());
    tries_[token.normalized].add(token.normal, tokens_.size(), what);
    id_bound_ = std::max(id_bound_, token.id + 1);
    tokens_.push_back(std::move(token));
  }
}

std::vector<TokenMatch> AddedTokens::find(std::string_view text, bool normalized, bool parse_special) const {
  std::vector<TokenMatch> matches;
  const TokenTrie& trie = tries_[normalized];
  size_t covered = 0;
  for (size_t i = 0; !trie.empty() && i < text.size();) {
    const auto [index, length] = trie.longest_at(text, i);
    if (length == 0) {
      ++i;
      continue;
    }
    const AddedToken& token = tokens_[index];
    size_t begin = i, end = i + length;
    i = end;
    if (token.special && !parse_special) continue;
    if (token.single_word && !is_single_word(text, begin, end)) continue;
    if (token.lstrip) begin = std::max(spaces_before(text, begin), covered);
    if (token.rstrip) end = spaces_after(text, end);
    if (covered < begin) matches.push_back({nullptr, covered, begin});
    matches.push_back({&token, begin, end});
    covered = end;
  }
  if (covered < text.size()) matches.push_back({nullptr, covered, text.size()});
  return matches;
}

const AddedToken* AddedTokens::by_id(int32_t id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &tokens_[it->second];
}

std::optional<int32_t> AddedTokens::find_id(std::string_view content) const {
  const auto it = by_content_.find(std::string(content));
  if (it == by_content_.end()) return std::nullopt;
  return tokens_[it->second].id;
}

bool AddedTokens::is_special_text(std::string_view text) const {
  const auto it = by_content_.find(std::string(text));
  return it != by_content_.end() && tokens_[it->second].special;
}

}  // namespace quaver::text
