// Splits a model's text, as it comes, into answer, reasoning and tool calls.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/reasoning.h"
#include "text/tool_calls.h"

namespace quaver::server {

struct OutputDelta {
  std::string content = {}, reasoning = {};
  std::vector<ToolCallDelta> tool_calls = {};
};

// What a request's answers may hold.
struct OutputStyle {
  const ToolStyle* tools = nullptr;  // null: calls are not looked for
  std::string chat_template;         // its text; decides whether there is reasoning
  std::string prompt;                // as rendered, since reasoning may have been opened there
};

// One per choice; not thread safe. All deltas joined are the same however the text was cut.
class OutputParser {
 public:
  explicit OutputParser(const OutputStyle& style);
  OutputDelta push(std::string_view text);
  OutputDelta finish();

 private:
  void take_content(OutputDelta& out, std::string_view text);
  std::unique_ptr<ReasoningParser> reasoning_;  // may be null
  std::unique_ptr<ToolCallParser> tools_;       // may be null
};

// What an answer must begin with so that it is a call of `function` ("" = of any): put behind the prompt.
// Throws ApiError 400 when the style has no such beginning.
std::string call_opening(const ToolStyle& style, const std::string& function);

}  // namespace quaver::server
