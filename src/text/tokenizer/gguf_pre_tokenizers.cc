// The table of GGUF's pre-tokenizer names. The patterns are those of the tokenizer.json files that the names
// stand for.
#include "text/tokenizer/gguf_pre_tokenizers.h"

#include <algorithm>
#include <array>
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
constexpr std::string_view kDeepSeekLetters =
    R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)";
constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";
constexpr std::string_view kBloom = R"( ?[^(\s|[.,!?…。，、।۔،])]+)";

struct Row {
  Style style;
  std::string_view names;  // separated by spaces
};

constexpr Row kTable[] = {
    // Transformers reads SmolLM's files so too, though the model was trained with digits cut off first: its
    // vocabulary joins no ASCII digits, so the two differ in other numerals alone.
    {{{}, Tail::kGpt2Pattern},
     "default gpt-2 smollm mpt olmo jais phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code "
     "roberta-bpe exaone4 gigachat a.x-4.0 mellum modern-bert trillion granite-docling"},
    {{{R"(\p{N})"}, Tail::kGpt2Pattern}, "starcoder refact command-r codeshell exaone minerva-7b mellum2"},
    {{{kLlama3}, Tail::kBytesOnly, true},
     "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano"},
    {{{kLlama3}}, "dbrx smaug-bpe glm4 chatglm-bpe"},
    {{{kQwen2}}, "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2"},
    {{{kQwen35}}, "qwen35"},
    {{{kTekken}, Tail::kBytesOnly, true}, "tekken"},
    {{{kGpt4o}}, "gpt-4o llama4 kanana2 talkie minimax-m2"},
    {{{R"([\r\n])", kDeepSeekLetters, R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)", R"(\s+$)",
       R"([一-龥ࠀ-一가-퟿]+)", R"(\p{N}+)"}},
     "deepseek-llm"},
    {{{R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", R"([一-龥ࠀ-一가-퟿]+)", R"(\p{N})"}},
     "deepseek-coder"},
    {{{R"(\p{N}{1,3})", R"([一-龥぀-ゟ゠-ヿ]+)", kDeepSeek3}},
     "deepseek-v3 hunyuan-dense joyai-llm hy_v4"},
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

}  // namespace

std::optional<GgufPreTokenizer> gguf_pre_tokenizer(std::string_view name) {
  if (name.empty()) name = "default";  // as files of before 2024 are
  for (const Row& row : kTable)
    if (lists(row.names, name)) return GgufPreTokenizer{spec_of(row.style), row.style.ignore_merges};
  return std::nullopt;
}

}  // namespace quaver::text
