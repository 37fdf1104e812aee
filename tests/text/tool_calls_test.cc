// Tool calls in streamed text: what is found, and that the cut of the pieces never shows.
#include "text/tool_calls.h"

#include <gtest/gtest.h>

#include "base/mapped_file.h"

namespace quaver {
namespace {

struct Streamed {
  ToolReply reply;
  std::vector<std::string> content;  // the deltas that had any
};

// Feeds `pieces` and checks the shape of every delta.
Streamed stream(const ToolStyle& style, const std::vector<std::string_view>& pieces) {
  Streamed out;
  auto take = [&](const ToolDelta& delta) {
    if (!delta.content.empty()) out.content.push_back(delta.content);
    out.reply.content += delta.content;
    for (const ToolCallDelta& call : delta.calls) {
      bool first = static_cast<size_t>(call.index) == out.reply.calls.size();
      EXPECT_EQ(first, !call.name.empty()) << "the name comes once, with the first delta of an index";
      if (first) out.reply.calls.emplace_back();
      ASSERT_LT(static_cast<size_t>(call.index), out.reply.calls.size());
      out.reply.calls.back().name += call.name;
      out.reply.calls.back().arguments += call.arguments;
    }
  };
  auto parser = style.make();
  for (std::string_view piece : pieces) take(parser->push(piece));
  take(parser->finish());
  return out;
}

std::vector<std::string_view> cut(std::string_view text, size_t size) {
  std::vector<std::string_view> pieces;
  for (size_t i = 0; i < text.size(); i += size) pieces.push_back(text.substr(i, size));
  return pieces;
}

std::string show_reply(const ToolReply& reply) {
  std::string out = "[" + reply.content + "]";
  for (const ToolCall& call : reply.calls) out += " " + call.name + "(" + call.arguments + ")";
  return out;
}

struct ToolCase {
  const char* style;
  const char* text;
  const char* due;
};

const ToolCase kToolCases[] = {
    {"hermes", "", "[]"},
    {"hermes", "Hello  \n", "[Hello  \n]"},
    {"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>", "[] f({\"a\": 1})"},
    {"hermes", "Let me see.\n\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n",
     "[Let me see.] f({})"},
    {"hermes", "<tool_call>{\"name\": \"now\"}</tool_call>", "[] now({})"},
    {"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": null}</tool_call>", "[] now({})"},
    {"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": \"\"}</tool_call>", "[] now({})"},
    {"hermes", "<tool_call>{\"arguments\": {\"x\": \"</tool_call>\"}, \"name\": \"f\"}</tool_call>",
     "[] f({\"x\": \"</tool_call>\"})"},
    {"hermes",
     "<tool_call>{\"name\":\"a\",\"arguments\":{\"x\":[1,{\"y\":\"}\"}]}}</"
     "tool_call>\n<tool_call>\n{\"name\":\"b\",\"arguments\":{}}\n</tool_call>",
     "[] a({\"x\":[1,{\"y\":\"}\"}]}) b({})"},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": \\\"é\\\"}\"}</tool_call>",
     "[] f({\"a\": \"é\"})"},
    {"hermes",
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 123456789012345678901234567890, \"f\": "
     "1.0}}</tool_call>",
     "[] f({\"n\": 123456789012345678901234567890, \"f\": 1.0})"},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
     "[] f({\"a\": 1})"},  // the end token came first
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}",
     "[<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}]"},
    {"hermes", "<tool_call>{\"name\": 5}</tool_call>", "[<tool_call>{\"name\": 5}</tool_call>]"},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
     "[<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>]"},
    {"hermes", "<tool_call>{'name': 'f'}</tool_call> x", "[<tool_call>{'name': 'f'}</tool_call> x]"},
    {"hermes", "<tool_call>{\"name\": \"f\", \"name\": \"g\"}</tool_call>",
     "[<tool_call>{\"name\": \"f\", \"name\": \"g\"}</tool_call>]"},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {}} junk</tool_call>",
     "[<tool_call>{\"name\": \"f\", \"arguments\": {}} junk</tool_call>]"},
    {"hermes", "<tool_call> oops <tool_call>{\"name\": \"f\"}</tool_call>", "[<tool_call> oops] f({})"},
    {"hermes", "a <tool_cal b <tool_call", "[a <tool_cal b <tool_call]"},
    {"hermes", "x < y <tool <tool_call>{\"name\": \"f\"}</tool_call> z", "[x < y <toolz] f({})"},
    {"hermes", "日本 🙂 <tool_call>{\"name\": \"検索\", \"arguments\": {\"q\": \"🙂\"}}</tool_call>",
     "[日本 🙂] 検索({\"q\": \"🙂\"})"},
    {"hermes", "<tool_call>", "[<tool_call>]"},
    {"hermes", "<tool_call>\n\n", "[<tool_call>\n\n]"},
    {"hermes", "<tool_call>{\"name\": \"\"}</tool_call>", "[<tool_call>{\"name\": \"\"}</tool_call>]"},
    {"hermes", "{\"name\": \"f\", \"arguments\": {}}", "[{\"name\": \"f\", \"arguments\": {}}]"},
    {"llama3_json", "", "[]"},
    {"llama3_json", " Hello {\"name\": \"f\"}", "[ Hello {\"name\": \"f\"}]"},
    {"llama3_json", "{\"name\": \"f\", \"parameters\": {\"a\": \"}\"}}", "[] f({\"a\": \"}\"})"},
    {"llama3_json", "\n{\"name\": \"f\", \"parameters\": {}}\n", "[] f({})"},
    {"llama3_json", "<|python_tag|>{\"name\": \"f\", \"arguments\": {\"b\": [2]}}", "[] f({\"b\": [2]})"},
    {"llama3_json", "{\"name\": \"f\"}; {\"name\": \"g\", \"parameters\": {\"x\": 1}}",
     "[] f({}) g({\"x\": 1})"},
    {"llama3_json", "{\"name\": \"f\"} and more", "[and more] f({})"},
    {"llama3_json", "{\"answer\": 42}", "[{\"answer\": 42}]"},
    {"llama3_json", "{\"name\": \"f\", \"parameters\": {", "[{\"name\": \"f\", \"parameters\": {]"},
    {"llama3_json", "<|python_tag|>print(1)", "[<|python_tag|>print(1)]"},
    {"llama3_json", "<|python", "[<|python]"},
    {"llama3_json", "  ", "[  ]"},
    {"llama3_json", "{\"name\": \"f\"}; {\"x\": 1}", "[; {\"x\": 1}] f({})"},
    {"llama3_json", "{\"type\": \"function\", \"name\": \"f\", \"parameters\": {\"k\": \"\\\"\\\\\"}}",
     "[] f({\"k\": \"\\\"\\\\\"})"},
};

TEST(ToolCalls, FindsWhatIsThere) {
  for (const ToolCase& c : kToolCases)
    EXPECT_EQ(show_reply(parse_tool_calls(tool_style(c.style), c.text)), c.due) << c.text;
}

TEST(ToolCalls, TheCutOfThePiecesNeverShows) {
  for (const ToolCase& c : kToolCases) {
    std::string_view text = c.text;
    for (size_t size = 1; size <= text.size(); ++size)
      EXPECT_EQ(show_reply(stream(tool_style(c.style), cut(text, size)).reply), c.due)
          << text << " in pieces of " << size;
    for (size_t at = 0; at <= text.size(); ++at)
      EXPECT_EQ(show_reply(stream(tool_style(c.style), {text.substr(0, at), text.substr(at)}).reply), c.due)
          << text << " at " << at;
  }
}

TEST(ToolCalls, ArgumentsAreAlwaysAJsonObject) {
  for (const ToolCase& c : kToolCases)
    for (const ToolCall& call : parse_tool_calls(tool_style(c.style), c.text).calls)
      EXPECT_TRUE(json::parse(call.arguments).is_object()) << call.arguments;
}

TEST(ToolCalls, ContentIsNotHeldBackWithoutNeed) {
  Streamed out = stream(tool_style("hermes"), {"Hel", "lo", " <", "b>"});
  EXPECT_EQ(out.content, (std::vector<std::string>{"Hel", "lo", " <b>"}));
  out = stream(tool_style("llama3_json"), {"Hel", "lo"});
  EXPECT_EQ(out.content, (std::vector<std::string>{"Hel", "lo"}));
}

TEST(ToolCalls, ACallIsGivenOutWhenItEnds) {
  auto parser = tool_style("hermes").make();
  EXPECT_TRUE(parser->push("<tool_call>{\"name\": \"f\", \"arguments\": {}}").calls.empty());
  EXPECT_EQ(parser->push("</tool_call>").calls.size(), 1u);
}

TEST(ToolCalls, LongCallsTakeLinearTimeAndManyOpenTagsAreContent) {
  std::string call = "<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": \"" + std::string(300000, 'a') +
                     "\"}}</tool_call>";
  EXPECT_EQ(stream(tool_style("hermes"), cut(call, 3)).reply.calls.size(), 1u);
  std::string open;
  for (int i = 0; i < 2000; ++i) open += "<tool_call>{";
  EXPECT_EQ(parse_tool_calls(tool_style("hermes"), open).content, open);
}

TEST(ToolCalls, StylesGoByNameAndByTemplate) {
  EXPECT_THROW(tool_style("xml"), Error);
  auto style_of = [](const char* file) {
    const ToolStyle* s = detect_tool_style(
        read_text_file(std::string(QUAVER_TEST_DATA "/golden/chat/templates/") + file, 1 << 20));
    return s ? s->name : "none";
  };
  EXPECT_EQ(style_of("tagged_tools.jinja"), "hermes");
  EXPECT_EQ(style_of("thinking_tools.jinja"), "hermes");
  EXPECT_EQ(style_of("header_ids.jinja"), "llama3_json");
  EXPECT_EQ(style_of("smollm2.jinja"), "none");
  EXPECT_EQ(style_of("inst_brackets.jinja"), "none");
}

}  // namespace
}  // namespace quaver
