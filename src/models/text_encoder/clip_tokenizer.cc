#include "models/text_encoder/clip_tokenizer.h"

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/mapped_file.h"
#include "models/text_encoder/tokenizer_settings.h"
#include "text/tokenizer/tokenizer_document.h"

namespace quaver::models {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxMergesBytes = size_t{64} << 20;
// What is a word: contractions, runs of letters, single digits, runs of anything else.
constexpr const char* kClipWords = R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";

// "a b" a line, best first, perhaps below a "#version" line.
json read_merges(const fs::path& file) {
  const std::string text = read_text_file(file, kMaxMergesBytes);
  json merges = json::array();
  size_t number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const size_t space = line.find(' ');
    require(space != std::string_view::npos && line.find(' ', space + 1) == std::string_view::npos,
            ErrorKind::kBadFile, file.string(), ": line ", number, " is no pair of two pieces");
    merges.push_back({line.substr(0, space), line.substr(space + 1)});
  }
  return merges;
}

text::EndToken end_token(const json& vocabulary, const std::string& token, const fs::path& file) {
  return {json_required<int32_t>(vocabulary, token.c_str(), file.string()), token};
}

json clip_document(const fs::path& folder) {
  const fs::path vocabulary_file = folder / "vocab.json";
  const json vocabulary = read_json_file(vocabulary_file.string());
  require(vocabulary.is_object(), ErrorKind::kBadFile, vocabulary_file.string(), ": must be a JSON object");
  const TokenizerSettings settings(folder);
  const std::string begin = settings.special_token("bos_token").value_or("<|startoftext|>"),
                    end = settings.special_token("eos_token").value_or("<|endoftext|>");
  const text::EndToken before = end_token(vocabulary, begin, vocabulary_file),
                       after = end_token(vocabulary, end, vocabulary_file);
  const json split = {
      {"type", "Split"}, {"pattern", {{"Regex", kClipWords}}}, {"behavior", "Removed"}, {"invert", true}};
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  return {{"version", "1.0"},
          {"added_tokens", {text::added_token(before.id, begin, {}), text::added_token(after.id, end, {})}},
          {"normalizer", text::sequence_of("normalizers", {{{"type", "NFC"}},
                                                           text::replace_regex(R"(\s+)", " "),
                                                           {{"type", "Lowercase"}}})},
          {"pre_tokenizer", text::sequence_of("pretokenizers", {split, bytes})},
          {"post_processor", text::template_around(before, after)},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", settings.special_token("unk_token").value_or(end)},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", "</w>"},
            {"vocab", vocabulary},
            {"merges", read_merges(folder / "merges.txt")}}}};
}

}  // namespace

bool has_clip_tokenizer(const fs::path& folder) {
  return fs::exists(folder / "vocab.json") && fs::exists(folder / "merges.txt") &&
         TokenizerSettings(folder).text("tokenizer_class").starts_with("CLIPTokenizer");
}

std::unique_ptr<Tokenizer> open_clip_tokenizer(const fs::path& folder) {
  return tokenizer_from_json(clip_document(folder).dump(), folder.string());
}

}  // namespace quaver::models
