// A tokenizer.json told as a GGUF vocabulary and read again cuts texts as before, or is refused.
#include "text/gguf_vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "text/tokenizer/fixtures.h"

namespace quaver::text {
namespace {

using ::testing::HasSubstr;

GgufVocabulary told(const std::string& name, int32_t extra = 0) {
  const auto tokenizer = golden_tokenizer(name);
  return gguf_vocabulary_of(tokenizer->to_tokenizer_json(), tokenizer->vocab_size() + extra, name);
}

struct Told {
  const char* name;
  const char* model;
  const char* pre;
};
class GgufVocabularyRoundTrip : public ::testing::TestWithParam<Told> {};

TEST_P(GgufVocabularyRoundTrip, CutsTextsAsBefore) {
  const auto [name, model, pre] = GetParam();
  const GgufVocabulary vocabulary = told(name, 3);
  EXPECT_EQ(vocabulary.model, model);
  EXPECT_EQ(vocabulary.pre, pre);
  const auto original = golden_tokenizer(name), again = tokenizer_from_gguf(vocabulary, name);
  ASSERT_EQ(static_cast<int32_t>(vocabulary.tokens.size()), original->vocab_size() + 3);
  EXPECT_EQ(vocabulary.types.back(), 5) << "unused";
  size_t compared = 0;
  for (const std::string& text : golden_texts()) {
    // Composed letters apart, and tokens that strip spaces or must stand alone: a GGUF has neither.
    if (std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }) ||
        text.find("stok") != std::string::npos || text.find("wtok") != std::string::npos)
      continue;
    ASSERT_EQ(again->encode(text, false), original->encode(text, false)) << text;
    ++compared;
  }
  EXPECT_GT(compared, 200u);
}

INSTANTIATE_TEST_SUITE_P(Kinds, GgufVocabularyRoundTrip,
                         ::testing::Values(Told{"llama3", "gpt2", "llama-bpe"},
                                           Told{"qwen2", "gpt2", "qwen2"}, Told{"llama2", "llama", "default"},
                                           Told{"gemma", "llama", "default"}),
                         [](const auto& row) { return std::string(row.param.name); });

// llama.cpp merges the neighbours of the best score, so that scores alone must give the merges again.
TEST(GgufVocabulary, ScoresOrderTheMerges) {
  GgufVocabulary vocabulary = told("llama2");
  ASSERT_FALSE(vocabulary.scores.empty());
  vocabulary.merges.clear();
  const auto original = golden_tokenizer("llama2"), again = tokenizer_from_gguf(vocabulary, "llama2");
  for (size_t n = 0; n < 300; ++n)
    ASSERT_EQ(again->encode(golden_texts()[n], false), original->encode(golden_texts()[n], false)) << n;
}

TEST(GgufVocabulary, TokensKeepTheirKinds) {
  const GgufVocabulary vocabulary = told("llama2");
  EXPECT_EQ(vocabulary.tokens[0], "<unk>");
  EXPECT_EQ(vocabulary.types[0], 2);
  EXPECT_EQ(vocabulary.types[1], 3) << vocabulary.tokens[1];
  EXPECT_EQ(vocabulary.tokens[3], "<0x00>");
  EXPECT_EQ(vocabulary.types[3], 6);
  EXPECT_TRUE(vocabulary.add_space_prefix);
  EXPECT_FALSE(told("gemma").add_space_prefix);
}

TEST(GgufVocabulary, TokensWithoutARowAreLeftOut) {
  const GgufVocabulary vocabulary = told("llama3", -1);
  EXPECT_EQ(static_cast<int32_t>(vocabulary.tokens.size()), golden_tokenizer("llama3")->vocab_size() - 1);
}

TEST(GgufVocabulary, WhatAGgufHasNoWordFor) {
  auto refused = [](const std::string& name) {
    try {
      told(name);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refused("gpt2"), HasSubstr("gpt2: the tokenizer's pre_tokenizer can't be told in a GGUF"));
  EXPECT_THAT(refused("gpt4o"), HasSubstr("normalizer"));
  EXPECT_THAT(refused("bert"), HasSubstr("model"));
  EXPECT_THAT(refused("t5"), HasSubstr("model"));
}

}  // namespace
}  // namespace quaver::text
