// Every range of the sampling parameters, with the field that an error names (F087).
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "llm/request.h"

namespace quaver::llm {
namespace {

constexpr int32_t kVocab = 512;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinite = std::numeric_limits<float>::infinity();

struct Case {
  const char* field;  // "" = valid
  std::function<void(SamplingParams&)> set;
};

std::pair<std::string, std::string> field_and_message(const Case& test) {
  SamplingParams params;
  test.set(params);
  try {
    validate_sampling(params, kVocab);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    return {error.field(), error.what()};
  }
  return {};
}

TEST(SamplingCheck, F087_NamesTheField) {
  const Case cases[] = {
      {"", [](auto&) {}},
      {"", [](auto& p) { p.temperature = 0; }},
      {"", [](auto& p) { p.temperature = 100; }},
      {"temperature", [](auto& p) { p.temperature = -1; }},
      {"temperature", [](auto& p) { p.temperature = 100.5f; }},
      {"temperature", [](auto& p) { p.temperature = kNan; }},
      {"top_p", [](auto& p) { p.top_p = 0; }},
      {"top_p", [](auto& p) { p.top_p = 1.5f; }},
      {"top_p", [](auto& p) { p.top_p = kNan; }},
      {"", [](auto& p) { p.top_p = 0.001f; }},
      {"", [](auto& p) { p.top_k = -1; }},
      {"", [](auto& p) { p.top_k = 1000000; }},
      {"top_k", [](auto& p) { p.top_k = -2; }},
      {"min_p", [](auto& p) { p.min_p = -0.1f; }},
      {"min_p", [](auto& p) { p.min_p = 1.1f; }},
      {"repetition_penalty", [](auto& p) { p.repetition_penalty = 0; }},
      {"repetition_penalty", [](auto& p) { p.repetition_penalty = kInfinite; }},
      {"repetition_penalty", [](auto& p) { p.repetition_penalty = 100.5f; }},
      {"repetition_penalty", [](auto& p) { p.repetition_penalty = kNan; }},
      {"frequency_penalty", [](auto& p) { p.frequency_penalty = 2.1f; }},
      {"presence_penalty", [](auto& p) { p.presence_penalty = -2.1f; }},
      {"max_tokens", [](auto& p) { p.max_tokens = 0; }},
      {"max_tokens", [](auto& p) { p.max_tokens = -1; }},
      {"", [](auto& p) { p.max_tokens = 0, p.prompt_logprobs = 0; }},
      {"min_tokens", [](auto& p) { p.min_tokens = -1; }},
      {"min_tokens", [](auto& p) { p.min_tokens = 17; }},
      {"", [](auto& p) { p.min_tokens = 16; }},
      {"stop", [](auto& p) { p.stop = {""}; }},
      {"stop",
       [](auto& p) {
         p.stop = {"a", ""};
       }},
      {"stop", [](auto& p) { p.stop.assign(129, "a"); }},
      {"stop", [](auto& p) { p.stop = {std::string(5000, 'a')}; }},
      {"",
       [](auto& p) {
         p.stop = {"a", "b", "c", "d"};
       }},
      {"stop_token_ids", [](auto& p) { p.stop_token_ids = {512}; }},
      {"stop_token_ids",
       [](auto& p) {
         p.stop_token_ids = {0, -1};
       }},
      {"", [](auto& p) { p.stop_token_ids.assign(2000, 511); }},
      {"allowed_token_ids", [](auto& p) { p.allowed_token_ids = {512}; }},
      {"", [](auto& p) { p.allowed_token_ids.assign(2000, 1); }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias = {{512, 1.0f}};
       }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias = {{-1, 1.0f}};
       }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias = {{1, 101.0f}};
       }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias = {{1, kNan}};
       }},
      {"",
       [](auto& p) {
         p.logit_bias = {{511, -100.0f}};
       }},
      {"logprobs", [](auto& p) { p.logprobs = -2; }},
      {"logprobs", [](auto& p) { p.logprobs = 513; }},
      {"", [](auto& p) { p.logprobs = -1; }},
      {"prompt_logprobs", [](auto& p) { p.prompt_logprobs = 513; }},
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    auto [field, message] = field_and_message(cases[i]);
    EXPECT_EQ(field, cases[i].field) << "case " << i << ": " << message;
  }
}

TEST(SamplingCheck, SaysWhatWasExpectedAndGot) {
  EXPECT_EQ(field_and_message({"", [](auto& p) { p.temperature = 300; }}).second,
            "temperature must be between 0 and 100, got 300");
  EXPECT_EQ(field_and_message({"",
                               [](auto& p) {
                                 p.logit_bias = {{512, 1.0f}};
                               }})
                .second,
            "logit_bias has token id 512, outside the vocabulary of 512");
}

}  // namespace
}  // namespace quaver::llm
