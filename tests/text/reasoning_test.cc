// Reasoning split from the answer in streamed text.
#include "text/reasoning.h"

#include <gtest/gtest.h>

namespace quaver {
namespace {

std::string run(const std::vector<std::string_view>& pieces, bool starts_inside) {
  ReasoningParser parser({.starts_inside = starts_inside});
  ReasoningDelta all;
  auto take = [&](const ReasoningDelta& delta) {
    all.reasoning += delta.reasoning;
    all.content += delta.content;
  };
  for (std::string_view piece : pieces) take(parser.push(piece));
  take(parser.finish());
  return "(" + all.reasoning + ")[" + all.content + "]";
}

struct ReasoningCase {
  const char* text;
  bool starts_inside;
  const char* due;
};

const ReasoningCase kReasoningCases[] = {
    {"", false, "()[]"},
    {"Hello", false, "()[Hello]"},
    {"<think>\nhm\n\nso\n</think>\n\nAnswer\n", false, "(hm\n\nso)[Answer\n]"},
    {"\n <think>a</think>b", false, "(a)[b]"},
    {"<think></think>b", false, "()[b]"},
    {"<think>\n\n</think>\n\nb", false, "()[b]"},
    {"<think>cut off", false, "(cut off)[]"},
    {"<think>cut off</thi", false, "(cut off</thi)[]"},
    {"<thin", false, "()[<thin]"},
    {"  ", false, "()[  ]"},
    {" x", false, "()[ x]"},
    {"a <think>b</think>", false, "()[a <think>b</think>]"},
    {"<think>a</think>b<think>c</think>", false, "(a)[b<think>c</think>]"},
    {"<think>a <b> </thin </think>c", false, "(a <b> </thin )[c]"},
    {"hm\n</think>\n\nb", true, "(hm)[b]"},
    {"no end", true, "(no end)[]"},
    {"</think>b", true, "()[b]"},
    {"世界 🙂</think>é", true, "(世界 🙂)[é]"},
    {"a</think>", true, "(a)[]"},
    {"a</think>\n\n", true, "(a)[]"},
};

TEST(Reasoning, SplitsHoweverTheTextIsCut) {
  for (const ReasoningCase& c : kReasoningCases) {
    std::string_view text = c.text;
    EXPECT_EQ(run({text}, c.starts_inside), c.due) << text;
    for (size_t size = 1; size <= text.size(); ++size) {
      std::vector<std::string_view> pieces;
      for (size_t i = 0; i < text.size(); i += size) pieces.push_back(text.substr(i, size));
      EXPECT_EQ(run(pieces, c.starts_inside), c.due) << text << " in pieces of " << size;
    }
    for (size_t at = 0; at <= text.size(); ++at)
      EXPECT_EQ(run({text.substr(0, at), text.substr(at)}, c.starts_inside), c.due) << text << " at " << at;
  }
}

TEST(Reasoning, IsNotHeldBackWithoutNeed) {
  ReasoningParser parser;
  EXPECT_EQ(parser.push("<think>a").reasoning, "a");
  EXPECT_EQ(parser.push("b\n").reasoning, "b");
  EXPECT_EQ(parser.push("c").reasoning, "\nc");
  EXPECT_EQ(parser.push("</think>").reasoning, "");
  EXPECT_EQ(parser.push("x").content, "x");
}

std::string first_reasoning(std::string_view chat_template, std::string_view prompt) {
  auto parser = reasoning_parser_for(chat_template, prompt);
  return parser ? parser->push("x").reasoning : "none";
}

TEST(Reasoning, TheTemplateAndThePromptTellTheStyle) {
  std::string_view thinks = "... '<think>' ... '</think>' ...";
  EXPECT_EQ(first_reasoning("plain", "<think>\n"), "none");
  EXPECT_EQ(first_reasoning(thinks, "<|Assistant|><think>\n"), "x");
  EXPECT_EQ(first_reasoning(thinks, "<|Assistant|>"), "");
  EXPECT_EQ(first_reasoning(thinks, "<|Assistant|><think>\n\n</think>\n\n"), "");
  EXPECT_EQ(first_reasoning(thinks, "I wrote <think> once.<|Assistant|>"), "");
}

}  // namespace
}  // namespace quaver
