// The table of GGUF's pre-tokenizer names. The patterns are those of the tokenizer.json files that the names
// stand for.
#include "text/tokenizer/gguf_pre_tokenizers.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer/tokenizer_document.h"

namespace quaver::text {
namespace {

// What comes after the splits: byte-level letters, with or without GPT-2's own pattern.
enum class Tail { kGpt2Pattern, kBytesOnly };

struct Style {
  std::array<std::string_view, 6> splits{};  // applied one after the other; empty at the end
  Tail tail = Tail::kBytesOnly;
  bool ignore_merges = false;
};

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Letters with case, as they were when the pattern was made.
constexpr std::string_view kDeepSeekLetters =
    R"(\s?[)"
    R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A})"
    R"(\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556})"
    R"(\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"
    R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D})"
    R"(\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D})"
    R"(\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC})"
    R"(\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128})"
    R"(\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183})"
    R"(\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D})"
    R"(\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF})"
    R"(\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F})"
    R"(\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"
    R"(]+)";
constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";
constexpr std::string_view kBloom =
    R"( ?[^(\s|[.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C}])]+)";
constexpr std::string_view kDeepSeekPunctuation =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
constexpr std::string_view kDeepSeekIdeographs = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr std::string_view kDeepSeek3Ideographs = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";

struct Row {
  Style style;
  std::string_view names;    // separated by spaces
  std::string_view written;  // the one to write, where that isn't the first
};

constexpr Row kTable[] = {
    // Transformers reads SmolLM's files so too, though the model was trained with digits cut off first: its
    // vocabulary joins no ASCII digits, so the two differ in other numerals alone.
    {{{}, Tail::kGpt2Pattern},
     "default gpt-2 smollm mpt olmo jais phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code "
     "roberta-bpe exaone4 gigachat a.x-4.0 mellum modern-bert trillion granite-docling",
     "gpt-2"},
    // llama.cpp takes spaces before punctuation away under the other names.
    {{{R"(\p{N})"}, Tail::kGpt2Pattern},
     "starcoder refact command-r codeshell exaone minerva-7b mellum2",
     "command-r"},
    {{{kLlama3}, Tail::kBytesOnly, true},
     "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano"},
    {{{kLlama3}}, "dbrx smaug-bpe glm4 chatglm-bpe"},
    {{{kQwen2}}, "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2"},
    {{{kQwen35}}, "qwen35"},
    {{{kTekken}, Tail::kBytesOnly, true}, "tekken"},
    {{{kGpt4o}}, "gpt-4o llama4 kanana2 talkie minimax-m2"},
    {{{R"([\r\n])", kDeepSeekLetters, kDeepSeekPunctuation, R"(\s+$)", kDeepSeekIdeographs, R"(\p{N}+)"}},
     "deepseek-llm"},
    {{{R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekIdeographs, R"(\p{N})"}}, "deepseek-coder"},
    {{{R"(\p{N}{1,3})", kDeepSeek3Ideographs, kDeepSeek3}}, "deepseek-v3 hunyuan-dense joyai-llm hy_v4"},
    {{{R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Words, R"([0-9][0-9][0-9])"}}, "falcon"},
    {{{kBloom}}, "bloom poro-chat gpt3-finnish"},
    {{{kBloom, R"(\p{N})"}}, "viking"},
    {{{R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"}, Tail::kGpt2Pattern}, "superbpe"},
};

bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t space = std::min(names.find(' '), names.size());
    if (names.substr(0, space) == name) return true;
    names.remove_prefix(std::min(space + 1, names.size()));
  }
  return false;
}

json spec_of(const Style& style) {
  std::vector<json> parts;
  for (const std::string_view split : style.splits)
    if (!split.empty()) parts.push_back(split_regex(std::string(split)));
  parts.push_back({{"type", "ByteLevel"},
                   {"add_prefix_space", false},
                   {"trim_offsets", true},
                   {"use_regex", style.tail == Tail::kGpt2Pattern}});
  return sequence_of("pretokenizers", std::move(parts));
}

// Splits and tail of one step of a pre-tokenizer, put behind those before; false: it is none of the table's.
bool add_step(const json& step, std::vector<std::string>& splits, std::optional<Tail>& tail) {
  const std::string type = step.value("type", "");
  if (tail) return false;
  if (type == "ByteLevel") {
    tail = step.value("use_regex", true) ? Tail::kGpt2Pattern : Tail::kBytesOnly;
    return !step.value("add_prefix_space", true);
  }
  if (type == "Digits") {
    splits.push_back(R"(\p{N})");
    return step.value("individual_digits", false);
  }
  if (type != "Split" || step.value("behavior", "") != "Isolated" || step.value("invert", false))
    return false;
  const json& pattern = step.at("pattern");
  if (!pattern.contains("Regex")) return false;
  splits.push_back(pattern.at("Regex").get<std::string>());
  return true;
}

bool same_splits(const Style& style, const std::vector<std::string>& splits) {
  const auto end = std::find(style.splits.begin(), style.splits.end(), std::string_view());
  return std::equal(style.splits.begin(), end, splits.begin(), splits.end());
}

}  // namespace

std::optional<GgufPreTokenizer> gguf_pre_tokenizer(std::string_view name) {
  if (name.empty()) name = "default";  // as files of before 2024 are
  for (const Row& row : kTable)
    if (lists(row.names, name)) return GgufPreTokenizer{spec_of(row.style), row.style.ignore_merges};
  return std::nullopt;
}

std::optional<std::string_view> gguf_pre_tokenizer_name(const json& spec, bool ignore_merges) {
  if (!spec.is_object()) return std::nullopt;
  const json single = json::array({spec});
  const json& steps = spec.value("type", "") == "Sequence" ? spec.at("pretokenizers") : single;
  std::vector<std::string> splits;
  std::optional<Tail> tail;
  for (const json& step : steps)
    if (!add_step(step, splits, tail)) return std::nullopt;
  for (const Row& row : kTable)
    if (tail == row.style.tail && ignore_merges == row.style.ignore_merges && same_splits(row.style, splits))
      return row.written.empty() ? row.names.substr(0, row.names.find(' ')) : row.written;
  return std::nullopt;
}

}  // namespace quaver::text
