// POST /v1/completions: prompts of every kind, echo, log-probabilities, streams.
#include <gtest/gtest.h>

#include "server/test_server.h"

namespace quaver::server::testing {
namespace {

json choice_of(const Answer& answer, size_t index = 0) { return answer.parsed().at("choices").at(index); }

TEST(Completions, AnswersWithTheObjectOfTheContract) {
  TestServer t;
  json out = t.complete().parsed();
  EXPECT_TRUE(out.at("id").get<std::string>().starts_with("cmpl-"));
  EXPECT_EQ(out.at("object"), "text_completion");
  EXPECT_EQ(out.at("choices"), json({{{"index", 0},
                                      {"text", "The quick brown fox"},
                                      {"logprobs", nullptr},
                                      {"finish_reason", "stop"},
                                      {"stop_reason", nullptr}}}));
  EXPECT_EQ(out.at("usage").at("prompt_tokens"), 3);  // <s> h i
  EXPECT_EQ(out.at("usage").at("completion_tokens"), 19);
}

TEST(Completions, TakesPromptsOfEveryKind) {
  TestServer t;
  EXPECT_EQ(t.complete({{"prompt", "ab"}}).status, 200);
  EXPECT_EQ(t.complete({{"prompt", {97, 98}}}).status, 200);
  EXPECT_EQ(t.complete({{"prompt", {"a", "b"}}, {"add_special_tokens", false}}).status, 200);
  EXPECT_EQ(t.complete({{"prompt", {{97}, {98, 99}}}}).status, 200);
  auto seen = t.pipeline.seen();
  ASSERT_EQ(seen.size(), 6u);
  EXPECT_EQ(seen[0].prompt, (std::vector<int32_t>{kBos, 'a', 'b'}));
  EXPECT_EQ(seen[1].prompt, (std::vector<int32_t>{'a', 'b'}));
  EXPECT_EQ(seen[2].prompt, (std::vector<int32_t>{'a'}));
  EXPECT_EQ(seen[5].prompt, (std::vector<int32_t>{'b', 'c'}));
}

TEST(Completions, MakesSixteenTokensUnlessTold) {
  TestServer t;
  t.complete({{"max_tokens", nullptr}});
  EXPECT_EQ(t.pipeline.seen().at(0).sampling.max_tokens, 16);
}

TEST(Completions, NumbersChoicesByPromptThenSample) {
  TestServer t;
  t.pipeline.script = [](const llm::Request& request) {
    return script_of(cat(FakeTokenizer().decode(request.prompt, true), *request.sampling.seed));
  };
  json out = t.complete({{"prompt", {"a", "b"}}, {"n", 2}, {"seed", 5}}).parsed();
  ASSERT_EQ(out.at("choices").size(), 4u);
  const char* expected[] = {"a5", "a6", "b5", "b6"};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(out.at("choices").at(i).at("index"), i);
    EXPECT_EQ(out.at("choices").at(i).at("text"), expected[i]);
  }
  EXPECT_EQ(out.at("usage").at("prompt_tokens"), 4);
}

TEST(Completions, StreamsTheSameText) {
  TestServer t;
  t.pipeline.script = [](const llm::Request&) { return script_of("na\xc3\xafve"); };
  Answer answer = t.complete({{"stream", true}, {"n", 2}, {"stream_options", {{"include_usage", true}}}});
  auto events = events_of(answer.body);
  EXPECT_EQ(events.back(), "[DONE]");
  std::string text[2];
  int finishes = 0;
  for (size_t i = 0; i + 2 < events.size(); ++i) {
    const json parsed = json::parse(events[i]);
    for (const json& choice : parsed.at("choices")) {
      text[choice.at("index").get<size_t>()] += choice.at("text").get<std::string>();
      if (choice.at("finish_reason").is_null()) continue;
      ++finishes;
      EXPECT_EQ(choice.at("text"), "");
    }
  }
  EXPECT_EQ(finishes, 2);
  EXPECT_EQ(text[0], "na\xc3\xafve");
  EXPECT_EQ(text[1], text[0]);
  json last = json::parse(events[events.size() - 2]);
  EXPECT_TRUE(last.at("choices").empty());
  EXPECT_EQ(last.at("usage").at("completion_tokens"), 12);
}

TEST(Completions, EchoesThePrompt) {
  TestServer t;
  EXPECT_EQ(choice_of(t.complete({{"echo", true}})).at("text"), "hiThe quick brown fox");
  EXPECT_EQ(choice_of(t.complete({{"echo", true}, {"prompt", {104, 105}}})).at("text"),
            "hiThe quick brown fox");
}

TEST(Completions, EchoWithoutTokensReturnsThePromptAlone) {
  TestServer t;
  for (bool stream : {false, true}) {
    Answer answer = t.complete({{"echo", true}, {"max_tokens", 0}, {"logprobs", 0}, {"stream", stream}});
    ASSERT_EQ(answer.status, 200) << answer.body;
    json choice = stream ? json::parse(events_of(answer.body).at(0)).at("choices").at(0) : choice_of(answer);
    EXPECT_EQ(choice.at("text"), "hi");
    EXPECT_EQ(choice.at("logprobs").at("tokens"), json({"<s>", "h", "i"}));
    EXPECT_TRUE(choice.at("logprobs").at("token_logprobs").at(0).is_null());
    EXPECT_EQ(choice.at("logprobs").at("token_logprobs").at(1), -0.25);
    if (!stream) {
      EXPECT_EQ(choice.at("finish_reason"), "length");
      EXPECT_EQ(answer.parsed().at("usage").at("completion_tokens"), 0);
    }
  }
}

// F085
TEST(Completions, ShowsLogprobsWithOffsets) {
  TestServer t;
  t.pipeline.script = [](const llm::Request&) { return script_of("xyz"); };
  json logprobs =
      choice_of(t.complete({{"logprobs", 2}, {"echo", true}, {"prompt", {104, 105}}})).at("logprobs");
  EXPECT_EQ(logprobs.at("tokens"), json({"h", "i", "x", "y", "z"}));
  EXPECT_EQ(logprobs.at("text_offset"), json({0, 1, 2, 3, 4}));
  EXPECT_EQ(logprobs.at("token_logprobs"), json({nullptr, -0.25, -0.25, -0.25, -0.25}));
  EXPECT_EQ(logprobs.at("top_logprobs").at(4), json({{"z", -0.25}, {"a", -1.0}, {"b", -9999.0}}));
}

TEST(Completions, ReturnsTokenIdsWhenAsked) {
  TestServer t;
  json choice = choice_of(t.complete({{"return_token_ids", true}, {"max_tokens", 2}}));
  EXPECT_EQ(choice.at("token_ids"), json({'T', 'h'}));
  EXPECT_EQ(choice.at("prompt_token_ids"), json({kBos, 'h', 'i'}));
  choice = choice_of(t.complete({{"return_tokens_as_token_ids", true}, {"max_tokens", 1}, {"logprobs", 0}}));
  EXPECT_EQ(choice.at("logprobs").at("tokens"), json({"token_id:84"}));
}

TEST(Completions, KeepsSpecialTokensOfThePrompt) {
  TestServer t;
  t.complete({{"prompt", "<|im_start|>a"}});
  EXPECT_EQ(t.pipeline.seen().at(0).prompt, (std::vector<int32_t>{kBos, kImStart, 'a'}));
}

}  // namespace
}  // namespace quaver::server::testing
