// Splits a model's text, as it comes, into answer, reasoning and tool calls.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"

namespace quaver::server {

struct ToolCallDelta {
  int index = 0;
  std::string name;       // in the first delta of a call only
  std::string arguments;  // JSON text, piece by piece
};

struct OutputDelta {
  std::string content = {}, reasoning = {};
  std::vector<ToolCallDelta> tool_calls = {};
};

// One per choice; not thread safe. All deltas joined are the same however the text was cut.
class OutputParser {
 public:
  virtual ~OutputParser() = default;
  virtual OutputDelta push(std::string_view text) = 0;
  virtual OutputDelta finish() = 0;
};

struct OutputParserOptions {};

std::unique_ptr<OutputParser> make_output_parser(const OutputParserOptions& options);

}  // namespace quaver::server
