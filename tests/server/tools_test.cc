// Tool calls and reasoning through the chat route, whole and streamed.
#include <gtest/gtest.h>

#include "server/test_server.h"

namespace quaver::server::testing {
namespace {

const json kTools = {
    {{"type", "function"}, {"function", {{"name", "get_weather"}, {"parameters", {{"type", "object"}}}}}}};

struct Seen {
  std::string content, reasoning, finish;
  std::vector<json> calls;  // name and arguments
  int names = 0;            // deltas that carried a name
};

Seen whole(const Answer& answer) {
  EXPECT_EQ(answer.status, 200) << answer.body;
  json choice = answer.parsed().at("choices").at(0);
  const json& message = choice.at("message");
  Seen out;
  if (message.at("content").is_string()) out.content = message.at("content");
  out.reasoning = message.value("reasoning", "");
  out.finish = choice.at("finish_reason");
  if (message.contains("tool_calls"))
    for (const json& call : message.at("tool_calls")) {
      EXPECT_TRUE(call.at("id").get<std::string>().starts_with("call_"));
      EXPECT_EQ(call.at("type"), "function");
      out.calls.push_back(call.at("function"));
      ++out.names;
    }
  return out;
}

Seen streamed(const Answer& answer) {
  EXPECT_EQ(answer.status, 200) << answer.body;
  Seen out;
  for (const std::string& event : events_of(answer.body)) {
    if (event == "[DONE]") continue;
    const json parsed = json::parse(event);
    for (const json& choice : parsed.at("choices")) {
      const json& delta = choice.at("delta");
      out.content += delta.value("content", "");
      out.reasoning += delta.value("reasoning", "");
      out.finish = choice.value("finish_reason", out.finish);
      if (!delta.contains("tool_calls")) continue;
      EXPECT_FALSE(delta.at("tool_calls").empty());
      for (const json& call : delta.at("tool_calls")) {
        size_t index = call.at("index");
        if (index >= out.calls.size()) {
          EXPECT_EQ(index, out.calls.size());
          EXPECT_TRUE(call.at("id").get<std::string>().starts_with("call_"));
          EXPECT_EQ(call.at("type"), "function");
          out.calls.push_back({{"name", call.at("function").at("name")}, {"arguments", ""}});
          ++out.names;
        } else {
          EXPECT_FALSE(call.contains("id"));
          EXPECT_FALSE(call.at("function").contains("name"));
        }
        std::string joined = out.calls[index]["arguments"].get<std::string>() +
                             call.at("function").at("arguments").get<std::string>();
        out.calls[index]["arguments"] = joined;
      }
    }
  }
  return out;
}

void expect_both(TestServer& t, json body, const Seen& expected) {
  for (bool stream : {false, true}) {
    body["stream"] = stream;
    Seen seen = stream ? streamed(t.chat(body)) : whole(t.chat(body));
    EXPECT_EQ(seen.content, expected.content);
    EXPECT_EQ(seen.reasoning, expected.reasoning);
    EXPECT_EQ(seen.finish, expected.finish);
    EXPECT_EQ(json(seen.calls), json(expected.calls));
    EXPECT_EQ(seen.names, static_cast<int>(expected.calls.size()));
  }
}

void say(TestServer& t, std::string text) {
  t.pipeline.script = [text](const llm::Request&) { return script_of(text); };
}

std::string last_prompt(TestServer& t) {
  return FakeTokenizer().decode(t.pipeline.seen().back().prompt, false);
}

// F084
TEST(Tools, CallsComeBackParsed) {
  TestServer t;
  say(t,
      "Let me see.<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bonn\"}}\n</tool_call>"
      "<tool_call>{\"name\": \"now\"}</tool_call>");
  expect_both(t, {{"tools", kTools}},
              {.content = "Let me see.",
               .finish = "tool_calls",
               .calls = {{{"name", "get_weather"}, {"arguments", "{\"city\": \"Bonn\"}"}},
                         {{"name", "now"}, {"arguments", "{}"}}}});
  expect_both(t, {{"tools", kTools}, {"parallel_tool_calls", false}},
              {.content = "Let me see.",
               .finish = "tool_calls",
               .calls = {{{"name", "get_weather"}, {"arguments", "{\"city\": \"Bonn\"}"}}}});
}

TEST(Tools, AbsentMeansAbsent) {
  TestServer t;
  say(t, "Hello");
  EXPECT_FALSE(t.chat({{"tools", kTools}}).parsed().at("choices").at(0).at("message").contains("tool_calls"));
  EXPECT_EQ(t.chat({{"tools", kTools}, {"stream", true}}).body.find("tool_calls"), std::string::npos);
  say(t, "<tool_call>{\"name\": \"now\"}</tool_call>");
  EXPECT_TRUE(t.chat({{"tools", kTools}}).parsed().at("choices").at(0).at("message").at("content").is_null());
}

TEST(Tools, WithoutToolsTheTextIsLeftAlone) {
  TestServer t;
  const std::string text = "<tool_call>{\"name\": \"now\"}</tool_call>";
  say(t, text);
  expect_both(t, json::object(), {.content = text, .finish = "stop", .calls = {}});
  expect_both(t, {{"tools", kTools}, {"tool_choice", "none"}},
              {.content = text, .finish = "stop", .calls = {}});
}

TEST(Tools, AMalformedCallIsContent) {
  TestServer t;
  const std::string text = "<tool_call>{\"name\": 5}</tool_call>";
  say(t, text);
  expect_both(t, {{"tools", kTools}}, {.content = text, .finish = "stop", .calls = {}});
}

TEST(Tools, ANamedCallIsBegunForTheModel) {
  TestServer t;
  say(t, "{\"city\": \"Rome\"}}\n</tool_call>");
  json choice = {{"type", "function"}, {"function", {{"name", "get_weather"}}}};
  expect_both(
      t, {{"tools", kTools}, {"tool_choice", choice}},
      {.finish = "tool_calls", .calls = {{{"name", "get_weather"}, {"arguments", "{\"city\": \"Rome\"}"}}}});
  EXPECT_TRUE(last_prompt(t).ends_with("assistant\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "))
      << last_prompt(t);
}

TEST(Tools, ARequiredCallIsBegunForTheModel) {
  TestServer t;
  say(t, "get_weather\", \"arguments\": {}}</tool_call>");
  expect_both(t, {{"tools", kTools}, {"tool_choice", "required"}},
              {.finish = "tool_calls", .calls = {{{"name", "get_weather"}, {"arguments", "{}"}}}});
}

TEST(Tools, AreDescribedToTemplatesThatKnowNone) {
  TestServer t;
  t.pipeline.chat = std::make_shared<FakeTemplate>("plain");
  t.server.attach(t.pipeline);
  say(t, "<tool_call>{\"name\": \"get_weather\", \"arguments\": {}}</tool_call>");
  expect_both(t, {{"tools", kTools}},
              {.finish = "tool_calls", .calls = {{{"name", "get_weather"}, {"arguments", "{}"}}}});
  EXPECT_TRUE(last_prompt(t).starts_with("<|im_start|>system\nYou can call functions.")) << last_prompt(t);
  EXPECT_NE(last_prompt(t).find("<tools>\n{\"function\":{\"name\":\"get_weather\""), std::string::npos)
      << last_prompt(t);
  json history = {{{"role", "system"}, {"content", "S"}},
                  {{"role", "assistant"},
                   {"tool_calls", {{{"id", "1"}, {"function", {{"name", "f"}, {"arguments", "{}"}}}}}}},
                  {{"role", "tool"}, {"tool_call_id", "1"}, {"content", "42"}}};
  EXPECT_EQ(t.chat({{"messages", history}}).status, 200);
  EXPECT_EQ(last_prompt(t),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>assistant\n<tool_call>\n{\"name\":\"f\","
            "\"arguments\":{}}\n</tool_call><|im_end|>\n"
            "<|im_start|>user\n<tool_response>\n42\n</tool_response><|im_end|>\n<|im_start|>assistant\n");
}

TEST(Reasoning, IsSplitFromTheAnswer) {
  TestServer t;
  say(t, "<think>\nhmm\n</think>\n\nYes");
  expect_both(t, json::object(), {.content = "Yes", .reasoning = "hmm", .finish = "stop", .calls = {}});
  expect_both(t, {{"include_reasoning", false}}, {.content = "Yes", .finish = "stop", .calls = {}});
  EXPECT_FALSE(t.chat({{"include_reasoning", false}})
                   .parsed()
                   .at("choices")
                   .at(0)
                   .at("message")
                   .contains("reasoning"));
}

TEST(Reasoning, StaysInTheTextWhenTheServerIsToldSo) {
  ServerOptions options = test_options();
  options.parse_reasoning = false;
  TestServer t(std::move(options));
  say(t, "<think>\nhmm\n</think>\n\nYes");
  expect_both(t, json::object(), {.content = "<think>\nhmm\n</think>\n\nYes", .finish = "stop", .calls = {}});
}

TEST(Reasoning, MayComeBeforeACall) {
  TestServer t;
  say(t, "<think>a</think><tool_call>{\"name\": \"now\"}</tool_call>");
  expect_both(t, {{"tools", kTools}},
              {.reasoning = "a", .finish = "tool_calls", .calls = {{{"name", "now"}, {"arguments", "{}"}}}});
}

}  // namespace
}  // namespace quaver::server::testing
