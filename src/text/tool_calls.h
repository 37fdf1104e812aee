// Finds the tool calls in what a model writes, as the text streams.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace quaver {

// News of one call: the first delta of an index carries the name, each carries a piece of the arguments'
// text. Joined they are one JSON object.
struct ToolCallDelta {
  int32_t index = 0;
  std::string name;       // in the first delta of this index only
  std::string arguments;  // "{}" at least once when the model gave none
};

struct ToolDelta {
  std::string content;  // new text that is no call
  std::vector<ToolCallDelta> calls;
};

struct ToolCall {
  std::string name, arguments;
};

// One reply. However the text is cut into pieces, the joined deltas are the same. Half a tag is never given
// out; a call that turns out to be malformed comes out as content, as the model wrote it. Not thread safe.
class ToolCallParser {
 public:
  virtual ~ToolCallParser() = default;
  virtual ToolDelta push(std::string_view text) = 0;
  virtual ToolDelta finish() = 0;  // gives out what was held back; nothing may follow
};

// One row per way in which models write calls.
struct ToolStyle {
  std::string_view name;
  // Whether a chat template tells its model to write calls like this.
  bool (*matches)(std::string_view chat_template);
  std::unique_ptr<ToolCallParser> (*make)();
};

std::span<const ToolStyle> tool_styles();
// By name; throws Error(kInvalidInput) listing the names when there is none.
const ToolStyle& tool_style(std::string_view name);
// The first row that matches, or null: then the model's text is all content.
const ToolStyle* detect_tool_style(std::string_view chat_template);

// The whole text at once, through the same parser.
struct ToolReply {
  std::string content;
  std::vector<ToolCall> calls;
};
ToolReply parse_tool_calls(const ToolStyle& style, std::string_view text);

}  // namespace quaver
