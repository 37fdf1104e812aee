#include "server/output_parser.h"

#include <algorithm>
#include <array>

#include "server/errors.h"

namespace quaver::server {
namespace {

// How a style writes a call up to its name, and from there to its arguments.
struct Opening {
  std::string_view style, before_name, before_arguments;
};
constexpr std::array kOpenings = {
    Opening{"hermes", "<tool_call>\n{\"name\": \"", "\", \"arguments\": "},
    Opening{"llama3_json", "{\"name\": \"", "\", \"parameters\": "},
};

}  // namespace

OutputParser::OutputParser(const OutputStyle& style)
    : reasoning_(reasoning_parser_for(style.chat_template, style.prompt)),
      tools_(style.tools ? style.tools->make() : nullptr) {}

OutputDelta OutputParser::push(std::string_view text) {
  OutputDelta out;
  if (!reasoning_) return take_content(out, text), out;
  ReasoningDelta delta = reasoning_->push(text);
  out.reasoning = std::move(delta.reasoning);
  take_content(out, delta.content);
  return out;
}

OutputDelta OutputParser::finish() {
  OutputDelta out;
  if (reasoning_) {
    ReasoningDelta delta = reasoning_->finish();
    out.reasoning = std::move(delta.reasoning);
    take_content(out, delta.content);
  }
  if (tools_) {
    ToolDelta delta = tools_->finish();
    out.content += delta.content;
    out.tool_calls.insert(out.tool_calls.end(), delta.calls.begin(), delta.calls.end());
  }
  return out;
}

void OutputParser::take_content(OutputDelta& out, std::string_view text) {
  if (!tools_) {
    out.content += text;
    return;
  }
  ToolDelta delta = tools_->push(text);
  out.content += delta.content;
  out.tool_calls.insert(out.tool_calls.end(), delta.calls.begin(), delta.calls.end());
}

std::string call_opening(const ToolStyle& style, const std::string& function) {
  auto row = std::find_if(kOpenings.begin(), kOpenings.end(),
                          [&](const Opening& o) { return o.style == style.name; });
  if (row == kOpenings.end())
    throw refused(cat("calls in the style '", style.name, "' cannot be required; use tool_choice 'auto'"),
                  "body.tool_choice");
  return function.empty() ? std::string(row->before_name)
                          : cat(row->before_name, function, row->before_arguments);
}

}  // namespace quaver::server
