#include "text/gguf_vocabulary.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "text/tokenizer/gguf_pre_tokenizers.h"
#include "text/tokenizer/sentencepiece_model.h"
#include "text/tokenizer/shown.h"

namespace quaver {
namespace text {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";

[[noreturn]] void no_word(std::string_view what, std::string_view part, const json& value) {
  fail(ErrorKind::kUnsupported, what, ": the tokenizer's ", part,
       " can't be told in a GGUF: ", value.dump().substr(0, 120));
}

bool is_byte_piece(std::string_view token) {
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with('>');
}

bool has_byte_level(const json& pre_tokenizer) {
  if (!pre_tokenizer.is_object()) return false;
  if (pre_tokenizer.value("type", "") == "ByteLevel") return true;
  return pre_tokenizer.contains("pretokenizers") &&
         std::ranges::any_of(pre_tokenizer.at("pretokenizers"), has_byte_level);
}

json part_of_document(const json& document, const char* key) {
  return document.contains(key) ? document.at(key) : json();
}

struct Tokens {
  std::vector<std::string> texts;
  std::vector<int32_t> types;
  std::set<int64_t> left_out;

  void set(int64_t id, std::string text, PieceType type) {
    if (id < 0 || id >= static_cast<int64_t>(texts.size())) {
      left_out.insert(id);
      return;
    }
    texts[static_cast<size_t>(id)] = std::move(text);
    types[static_cast<size_t>(id)] = static_cast<int32_t>(type);
  }
};

Tokens empty_tokens(int32_t size) {
  Tokens tokens;
  for (int32_t id = 0; id < size; ++id) tokens.texts.push_back(cat("[PAD", id, "]"));
  tokens.types.assign(static_cast<size_t>(size), static_cast<int32_t>(PieceType::kUnused));
  return tokens;
}

void add_added_tokens(const json& document, Tokens& tokens, std::string_view what) {
  bool strips = false;
  for (const json& token : document.value("added_tokens", json::array())) {
    const bool special = json_value<bool>(token, "special", false, what);
    for (const char* key : {"lstrip", "rstrip", "single_word"})
      strips = strips || json_value<bool>(token, key, false, what);
    tokens.set(json_required<int64_t>(token, "id", what), json_required<std::string>(token, "content", what),
               special ? PieceType::kControl : PieceType::kUserDefined);
  }
  if (strips) log_warning(what, ": that added tokens strip spaces around them can't be told in a GGUF");
}

Tokens tokens_of(const json& document, int32_t size, bool byte_level, std::string_view what) {
  Tokens tokens = empty_tokens(size);
  const json& model = document.at("model");
  for (const auto& [text, id] : model.at("vocab").items()) {
    const bool is_byte = !byte_level && is_byte_piece(text);
    tokens.set(id.get<int64_t>(), text, is_byte ? PieceType::kByte : PieceType::kNormal);
  }
  add_added_tokens(document, tokens, what);
  const std::string unknown = json_value<std::string>(model, "unk_token", "", what);
  if (!unknown.empty() && model.at("vocab").contains(unknown))
    tokens.set(model.at("vocab").at(unknown).get<int64_t>(), unknown, PieceType::kUnknown);
  if (!tokens.left_out.empty())
    log_warning(what, ": ", tokens.left_out.size(), " tokens from ", size,
                " on have no row in the embedding and are left out");
  return tokens;
}

std::pair<std::string, std::string> merge_of(const json& merge, std::string_view what) {
  if (merge.is_array() && merge.size() == 2) return merge.get<std::pair<std::string, std::string>>();
  const std::string text = merge.is_string() ? merge.get<std::string>() : "";
  const size_t space = text.find(' ');
  if (space == std::string::npos) no_word(what, "merge", merge);
  return {text.substr(0, space), text.substr(space + 1)};
}

using Merges = std::vector<std::pair<std::string, std::string>>;

Merges merges_in(const json& document, std::string_view what) {
  Merges merges;
  for (const json& merge : document.at("model").value("merges", json::array())) {
    merges.push_back(merge_of(merge, what));
    for (const std::string& half : {merges.back().first, merges.back().second})
      if (half.empty() || half.find(' ') != std::string::npos) no_word(what, "merge", merge);
  }
  require(!merges.empty(), ErrorKind::kUnsupported, what,
          ": the tokenizer has no merges, which a GGUF needs");
  return merges;
}

// A piece is the better the earlier merges make it; all merges that make it must stand together.
std::vector<float> scores_of(const Tokens& tokens, const Merges& merges, std::string_view what) {
  std::unordered_map<std::string, float> by_text;
  std::string last;
  for (const auto& [left, right] : merges) {
    std::string made = left + right;
    if (made == last) continue;
    const auto score = -static_cast<float>(by_text.size() + 1);
    require(by_text.emplace(made, score).second, ErrorKind::kUnsupported, what, ": the merges of '",
            shown(made), "' stand apart, which scores of a GGUF can't tell");
    last = std::move(made);
  }
  const auto worst = -static_cast<float>(by_text.size() + 1);
  std::vector<float> scores(tokens.texts.size(), 0.0f);
  for (size_t id = 0; id < scores.size(); ++id) {
    if (tokens.types[id] != static_cast<int32_t>(PieceType::kNormal)) continue;
    const auto found = by_text.find(tokens.texts[id]);
    scores[id] = found == by_text.end() ? worst : found->second;
  }
  return scores;
}

json steps_of(const json& component, const char* key) {
  if (component.is_null()) return json::array();
  return component.value("type", "") == "Sequence" ? component.at(key) : json::array({component});
}

// True when a space goes before the text.
bool read_visible_spaces(const json& document, std::string_view what) {
  bool prefix = false;
  for (const json& step : steps_of(part_of_document(document, "normalizer"), "normalizers")) {
    const std::string type = step.value("type", "");
    if (type == "Prepend" && step.value("prepend", "") == kSpaceMark)
      prefix = true;
    else if (type != "Replace" || step.at("pattern") != json{{"String", " "}} ||
             step.value("content", "") != kSpaceMark)
      no_word(what, "normalizer", step);
  }
  for (const json& step : steps_of(part_of_document(document, "pre_tokenizer"), "pretokenizers")) {
    const std::string type = step.value("type", "");
    if (type == "Metaspace" && step.value("replacement", std::string(kSpaceMark)) == kSpaceMark)
      prefix = step.value("prepend_scheme", "always") != "never";
    else if (type != "Split" || step.at("pattern") != json{{"String", " "}})
      no_word(what, "pre_tokenizer", step);
  }
  return prefix;
}

void fill_byte_level(const json& document, GgufVocabulary& vocabulary, std::string_view what) {
  const json normalizer = part_of_document(document, "normalizer");
  if (!normalizer.is_null() && normalizer.value("type", "") != "NFC") no_word(what, "normalizer", normalizer);
  const json pre = part_of_document(document, "pre_tokenizer");
  const auto name =
      gguf_pre_tokenizer_name(pre, json_value<bool>(document.at("model"), "ignore_merges", false, what));
  if (!name) no_word(what, "pre_tokenizer", pre);
  vocabulary.model = "gpt2";
  vocabulary.pre = *name;
}

void check_bpe(const json& document, std::string_view what) {
  require(document.is_object() && document.contains("model") && document.at("model").is_object(),
          ErrorKind::kBadFile, what, ": the tokenizer has no model");
  const json& model = document.at("model");
  if (model.value("type", "BPE") != "BPE" || !model.contains("vocab") || !model.at("vocab").is_object())
    no_word(what, "model", model.value("type", json()));
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (model.contains(key) && model.at(key).is_string() && !model.at(key).get<std::string>().empty())
      no_word(what, key, model.at(key));
}

}  // namespace
}  // namespace text

GgufVocabulary gguf_vocabulary_of(std::string_view tokenizer_json, int32_t size, std::string_view what) {
  const json document = parse_json(tokenizer_json, what);
  text::check_bpe(document, what);
  GgufVocabulary vocabulary;
  const bool byte_level = text::has_byte_level(text::part_of_document(document, "pre_tokenizer"));
  text::Tokens tokens = text::tokens_of(document, size, byte_level, what);
  const text::Merges merges = text::merges_in(document, what);
  if (byte_level) {
    text::fill_byte_level(document, vocabulary, what);
  } else {
    if (!json_value<bool>(document.at("model"), "byte_fallback", false, what))
      text::no_word(what, "model", "BPE without bytes");
    vocabulary.model = "llama";
    vocabulary.pre = "default";
    vocabulary.add_space_prefix = text::read_visible_spaces(document, what);
    vocabulary.scores = text::scores_of(tokens, merges, what);
  }
  for (const auto& [left, right] : merges) vocabulary.merges.push_back(cat(left, " ", right));
  vocabulary.tokens = std::move(tokens.texts);
  vocabulary.types = std::move(tokens.types);
  return vocabulary;
}

}  // namespace quaver
