// From sampled tokens to text and the reason to end (F078, F079).
#include "llm/output.h"

#include <gtest/gtest.h>

#include "llm/fake_model.h"

namespace quaver::llm {
namespace {

using testing::kFakeEnd;

// Tokens of the fake tokenizer: 1 ... 4 the bytes of an emoji, 40 "A", 41 "B" and so on.
struct Decoded {
  std::vector<std::string> texts;
  Output::Step last;
  size_t steps = 0;
  std::string joined() const {
    std::string all;
    for (const std::string& text : texts) all += text;
    return all;
  }
};

Decoded decode(const SamplingParams& params, const std::vector<int32_t>& tokens) {
  static const std::shared_ptr<const Tokenizer> tokenizer = testing::make_fake_tokenizer();
  const int32_t ends[] = {kFakeEnd};
  Output output(*tokenizer, params, ends);
  Decoded result;
  for (int32_t token : tokens) {
    result.last = output.push(token);
    result.texts.push_back(result.last.text);
    ++result.steps;
    if (result.last.finish != FinishReason::kNone) break;
  }
  return result;
}

SamplingParams with(int32_t max_tokens, std::vector<std::string> stop = {}) {
  SamplingParams params;
  params.max_tokens = max_tokens;
  params.stop = std::move(stop);
  return params;
}

TEST(Output, F078_CharactersComeWhole) {
  EXPECT_EQ(decode(with(9), {40, 1, 2, 3, 4}).texts,
            (std::vector<std::string>{"A", "", "", "", "\xf0\x9f\x98\x80"}));
}

TEST(Output, F078_AnUnfinishedCharacterBecomesOneReplacementAtTheEnd) {
  Decoded length = decode(with(4), {40, 1, 2, 3});
  EXPECT_EQ(length.joined(), "A\xef\xbf\xbd");
  EXPECT_EQ(length.last.finish, FinishReason::kLength);
  EXPECT_EQ(decode(with(9), {40, 1, 2, kFakeEnd}).joined(), "A\xef\xbf\xbd");
}

TEST(Output, EndTokensHaveNoText) {
  SamplingParams params = with(9);
  params.skip_special_tokens = false;
  Decoded stopped = decode(params, {40, kFakeEnd});
  EXPECT_EQ(stopped.joined(), "A");
  EXPECT_EQ(stopped.last.finish, FinishReason::kStop);
  EXPECT_FALSE(stopped.last.stop_token);
  params.include_stop_str_in_output = true;
  EXPECT_EQ(decode(params, {40, kFakeEnd}).joined(), "A<end>");
  params.ignore_eos = true;
  Decoded ignored = decode(params, {40, kFakeEnd, 41});
  EXPECT_EQ(ignored.joined(), "A<end>B");
  EXPECT_EQ(ignored.last.finish, FinishReason::kNone);
}

TEST(Output, StopTokensAreNamed) {
  SamplingParams params = with(9);
  params.stop_token_ids = {41};
  Decoded stopped = decode(params, {40, 41});
  EXPECT_EQ(stopped.joined(), "A");
  EXPECT_EQ(stopped.last.stop_token, 41);
  params.include_stop_str_in_output = true;
  EXPECT_EQ(decode(params, {40, 41}).joined(), "AB");
}

TEST(Output, F079_StopStringAcrossTokens) {
  Decoded stopped = decode(with(9, {"BCD"}), {40, 41, 42, 43, 44});
  EXPECT_EQ(stopped.joined(), "A");
  EXPECT_EQ(stopped.steps, 4u);
  EXPECT_EQ(stopped.last.finish, FinishReason::kStop);
  EXPECT_EQ(stopped.last.stop_text, "BCD");
  EXPECT_EQ(decode(with(9, {"\xf0\x9f\x98\x80"}), {40, 1, 2, 3, 4, 41}).joined(), "A");
}

TEST(Output, F079_WhatIsHeldBackComesWhenTheTextEnds) {
  EXPECT_EQ(decode(with(9, {"ABX"}), {40, 41}).joined(), "");
  EXPECT_EQ(decode(with(2, {"ABX"}), {40, 41}).joined(), "AB");
  EXPECT_EQ(decode(with(9, {"ABX"}), {40, 41, kFakeEnd}).joined(), "AB");
  EXPECT_EQ(decode(with(9, {"ABX"}), {40, 41, 42}).joined(), "ABC");
}

TEST(Output, AStopStringOnTheLastTokenStops) {
  Decoded stopped = decode(with(2, {"B"}), {40, 41});
  EXPECT_EQ(stopped.last.finish, FinishReason::kStop);
  EXPECT_EQ(stopped.joined(), "A");
}

TEST(Output, MinTokensIgnoresEarlyStopStrings) {
  SamplingParams params = with(9, {"A"});
  params.min_tokens = 2;
  Decoded stopped = decode(params, {40, 40, 41, 40});
  EXPECT_EQ(stopped.joined(), "AAB");
  EXPECT_EQ(stopped.steps, 4u);
}

TEST(Output, TokensBeyondTheTokenizerHaveNoText) {
  EXPECT_EQ(decode(with(9), {40, testing::kFakeVocab + 5, 41}).joined(), "AB");
}

TEST(Output, FlushGivesWhatWasHeldBack) {
  std::shared_ptr<const Tokenizer> tokenizer = testing::make_fake_tokenizer();
  SamplingParams params = with(9, {"ABX"});
  Output output(*tokenizer, params, {});
  output.push(40);
  output.push(41);
  EXPECT_EQ(output.flush(), "AB");
}

}  // namespace
}  // namespace quaver::llm
