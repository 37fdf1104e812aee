// Vocabularies of GGUF files become tokenizers; what they leave out or get wrong is an error.
#include <gtest/gtest.h>

#include "base/error.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/byte_tokens.h"
#include "text/tokenizer/fixtures.h"
#include "text/tokenizer/gguf_pre_tokenizers.h"

namespace quaver::text {
namespace {

using Ids = std::vector<int32_t>;

// <|end|>, the 256 bytes, and a few merges.
GgufVocabulary byte_level(const std::string& pre) {
  GgufVocabulary vocabulary{.model = "gpt2", .pre = pre, .tokens = {"<|end|>"}, .types = {3}};
  for (int byte = 0; byte < 256; ++byte)
    append_byte_level(vocabulary.tokens.emplace_back(), std::string(1, static_cast<char>(byte)));
  vocabulary.merges = {"1 2", "12 3", "123 4", "\u0120 a", "h e", "he he", "\u0120 \u0120"};
  for (const std::string& merge : vocabulary.merges) {
    std::string token = merge;
    token.erase(token.find(' '), 1);
    vocabulary.tokens.push_back(token);
  }
  vocabulary.types.resize(vocabulary.tokens.size(), 1);
  vocabulary.eos = vocabulary.bos = 0;
  return vocabulary;
}

std::string spelled(const Tokenizer& tokenizer, std::string_view text) {
  std::string out;
  for (const int32_t id : tokenizer.encode(text, false))
    out += cat(out.empty() ? "" : " ", tokenizer.token_text(id));
  return out;
}

TEST(GgufTokenizer, CutsNumbersAsThePreTokenizerSays) {
  const std::vector<std::pair<const char*, const char*>> expected = {
      {"gpt-2", "1234"},        {"", "1234"},
      {"default", "1234"},      {"smollm", "1234"},
      {"starcoder", "1 2 3 4"}, {"qwen2", "1 2 3 4"},
      {"llama-bpe", "123 4"},   {"deepseek-llm", "1234"},
      {"deepseek-v3", "123 4"}, {"deepseek-coder", "1 2 3 4"},
      {"tekken", "1 2 3 4"},    {"gpt-4o", "123 4"},
  };
  for (const auto& [pre, parts] : expected)
    EXPECT_EQ(spelled(*tokenizer_from_gguf(byte_level(pre), "t.gguf"), "1234"), parts) << pre;
}

TEST(GgufTokenizer, EveryListedPreTokenizerIsComplete) {
  const std::string text =
      "It's 1234 na\u00efve\tcaf\u00e9s, \u6f22\u5b57\u304b\u306a \U0001F600!!\r\n  end ";
  for (const char* pre :
       {"default",     "gpt-2",     "smollm",    "starcoder", "refact",       "command-r",
        "falcon",      "llama-bpe", "llama3",    "dbrx",      "smaug-bpe",    "qwen2",
        "qwen35",      "tekken",    "gpt-4o",    "llama4",    "deepseek-llm", "deepseek-coder",
        "deepseek-v3", "bloom",     "viking",    "superbpe",  "chatglm-bpe",  "exaone",
        "mpt",         "olmo",      "stablelm2", "hunyuan",   "minerva-7b"}) {
    const auto tokenizer = tokenizer_from_gguf(byte_level(pre), "t.gguf");
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false), false), text) << pre;
  }
  EXPECT_FALSE(gguf_pre_tokenizer("no-such-thing"));
  EXPECT_FALSE(gguf_pre_tokenizer("gpt-2 smollm"));
}

TEST(GgufTokenizer, ControlTokensAreSpecial) {
  const auto tokenizer = tokenizer_from_gguf(byte_level("qwen2"), "t.gguf");
  EXPECT_TRUE(tokenizer->is_special(0));
  EXPECT_FALSE(tokenizer->is_special(1));
  EXPECT_EQ(tokenizer->encode("<|end|>", false), Ids{0});
  EXPECT_EQ(tokenizer->encode("<|end|>", false, false).size(), 7u);
}

TEST(GgufTokenizer, AddsBosAndEosWhenTold) {
  GgufVocabulary vocabulary = byte_level("qwen2");
  EXPECT_EQ(tokenizer_from_gguf(vocabulary, "t.gguf")->encode("hehe", true).size(), 1u);
  vocabulary.add_bos = vocabulary.add_eos = true;
  const auto ids = tokenizer_from_gguf(vocabulary, "t.gguf")->encode("hehe", true);
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_EQ(ids.front(), 0);
  EXPECT_EQ(ids.back(), 0);
}

GgufVocabulary scored() {
  GgufVocabulary vocabulary{
      .model = "llama", .tokens = {"<unk>", "<s>", "</s>"}, .scores = {0, 0, 0}, .types = {2, 3, 3}};
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.push_back(byte_token(static_cast<uint8_t>(byte)));
    vocabulary.scores.push_back(0);
    vocabulary.types.push_back(6);
  }
  float score = 0;
  for (const char* piece : {"\u2581h", "ey", "\u2581hey", "\u2581", "h", "e", "y"}) {
    vocabulary.tokens.emplace_back(piece);
    vocabulary.scores.push_back(--score);
    vocabulary.types.push_back(1);
  }
  vocabulary.tokens.emplace_back("<tool>");
  vocabulary.scores.push_back(-1000);
  vocabulary.types.push_back(4);
  vocabulary.bos = 1;
  vocabulary.eos = 2;
  vocabulary.unk = 0;
  vocabulary.add_bos = true;
  return vocabulary;
}

TEST(GgufTokenizer, SentencePieceByScores) {
  const auto tokenizer = tokenizer_from_gguf(scored(), "t.gguf");
  EXPECT_EQ(spelled(*tokenizer, "hey hey"), "\u2581hey \u2581hey");
  EXPECT_EQ(spelled(*tokenizer, "\u00e9"), "\u2581 <0xC3> <0xA9>");
  EXPECT_EQ(spelled(*tokenizer, "hey<tool>"), "\u2581hey <tool>");
  EXPECT_FALSE(tokenizer->is_special(*tokenizer->token_id("<tool>")));
  const Ids ids = tokenizer->encode("hey \u00e9", true);
  EXPECT_EQ(ids[0], 1);
  EXPECT_EQ(tokenizer->decode(ids, true), "hey \u00e9");
  const auto exported = tokenizer_from_json(tokenizer->to_tokenizer_json(), "export");
  EXPECT_EQ(exported->encode("hey \u00e9 <tool></s>", true),
            tokenizer->encode("hey \u00e9 <tool></s>", true));
}

TEST(GgufTokenizer, WordPieceAndUnigram) {
  GgufVocabulary bert{.model = "bert",
                      .tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2581hel", "lo"},
                      .types = {3, 3, 3, 3, 1, 1}};
  bert.bos = 2;
  bert.eos = 3;
  bert.unk = 1;
  bert.add_bos = bert.add_eos = true;
  EXPECT_EQ(tokenizer_from_gguf(bert, "t.gguf")->encode("Hello lo", true), (Ids{2, 4, 5, 1, 3}));
  GgufVocabulary t5{.model = "t5",
                    .tokens = {"<pad>", "</s>", "<unk>", "\u2581he", "y", "\u2581"},
                    .scores = {0, 0, 0, -1, -2, -3},
                    .types = {3, 3, 2, 1, 1, 1}};
  t5.eos = 1;
  t5.unk = 2;
  t5.add_eos = true;
  EXPECT_EQ(tokenizer_from_gguf(t5, "t.gguf")->encode("hey y", true), (Ids{3, 4, 5, 4, 1}));
}

TEST(GgufTokenizer, RefusesWhatDoesNotFit) {
  const auto refused = [](auto&& damage) {
    GgufVocabulary vocabulary = byte_level("qwen2");
    damage(vocabulary);
    EXPECT_THROW(tokenizer_from_gguf(vocabulary, "t.gguf"), Error);
  };
  refused([](GgufVocabulary& v) { v.model = "rwkv"; });
  refused([](GgufVocabulary& v) { v.pre = "unheard-of"; });
  refused([](GgufVocabulary& v) { v.tokens.clear(); });
  refused([](GgufVocabulary& v) { v.types.pop_back(); });
  refused([](GgufVocabulary& v) { v.scores = {1, 2}; });
  refused([](GgufVocabulary& v) { v.merges.clear(); });
  refused([](GgufVocabulary& v) { v.merges.push_back("nospace"); });
  refused([](GgufVocabulary& v) { v.merges.push_back("1 9"); });
  refused([](GgufVocabulary& v) { v.tokens[5] = v.tokens[6]; });
  refused([](GgufVocabulary& v) { v.tokens[5] = "\xFF"; });
  refused([](GgufVocabulary& v) { v.eos = 100000; });
  refused([](GgufVocabulary& v) { v.bos = -1; });
  GgufVocabulary nan = scored();
  nan.scores[300 - 40] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(tokenizer_from_gguf(nan, "t.gguf"), Error);
}

}  // namespace
}  // namespace quaver::text
