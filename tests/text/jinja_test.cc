// The template language against Jinja2: several hundred small templates and what Transformers' environment
// renders.
#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "text/chat_template.h"

namespace quaver {
namespace {

ordered_json golden() {
  return ordered_json::parse(read_text_file(QUAVER_TEST_DATA "/golden/chat/micro.json", size_t{8} << 20));
}

ChatTemplateInput input_with(const ordered_json& context) {
  ChatTemplateInput input;
  input.messages = ordered_json::parse(R"([{"role": "user", "content": " hi "}])");
  input.extra = context;
  input.extra.erase("tools");
  return input;
}

std::string show_json(const ordered_json& j) {
  return j.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void check_jinja_case(const ordered_json& row, const ChatTemplateInput& input) {
  std::string source = row.at("template");
  try {
    std::string text = ChatTemplate::compile(source, "t")->render(input);
    if (!row.contains("text"))
      ADD_FAILURE() << source << "\n gives: " << show_json(text) << "\n error: " << row.at("error");
    else
      EXPECT_EQ(show_json(text), show_json(row.at("text"))) << source;
  } catch (const Error& e) {
    std::string message = e.what();
    if (!row.contains("error")) {
      ADD_FAILURE() << source << "\n fails: " << message << "\n text: " << show_json(row.at("text"));
    } else if (row.at("exact").get<bool>()) {
      EXPECT_TRUE(message.ends_with(row.at("error").get<std::string>()))
          << source << "\n ours: " << message << "\n due:  " << row.at("error");
      std::string line = row.contains("line") ? cat("line ", row.at("line").get<int>(), ",") : "";
      EXPECT_NE(message.find(line), std::string::npos)
          << source << "\n ours: " << message << "\n due:  " << line;
    }
  }
}

TEST(Jinja, RendersAsJinja2) {
  ordered_json data = golden();
  ChatTemplateInput input = input_with(data.at("context"));
  ASSERT_GT(data.at("cases").size(), 700u);
  for (const auto& row : data.at("cases")) check_jinja_case(row, input);
}

}  // namespace
}  // namespace quaver
