// One tool call written as a JSON object: where it ends, and what it says.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/tool_calls.h"

namespace quaver {

// Finds the end of a JSON object in a text that grows. Looks at brackets and strings only.
class JsonObjectScanner {
 public:
  // Starts at `begin`, where the "{" stands.
  explicit JsonObjectScanner(size_t begin = 0) : position_(begin) {}
  // Goes on over `text`, which begins with what it was called with before. The position behind the object, or
  // npos when it has not ended yet.
  size_t scan(std::string_view text);

 private:
  size_t position_;
  int depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

// {"name": string, "arguments" or "parameters": object}; the arguments keep the model's own spelling, and are
// "{}" when it gave none. Nothing when the text is no such object.
std::optional<ToolCall> parse_tool_call(std::string_view object);

// The two parsers of the table, each in a file of its own.
std::unique_ptr<ToolCallParser>
make_tagged_tool_parser();  // <tool_call>{...}</tool_call>, anywhere in the text
std::unique_ptr<ToolCallParser> make_bare_tool_parser();  // {...} or {...}; {...} and nothing before it

}  // namespace quaver
