#include "text/tool_calls.h"

#include "text/tool_call_json.h"

namespace quaver {
namespace {

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// JSON between the tags; some templates use the same tags around XML, which is another style.
bool asks_for_tags(std::string_view t) {
  return has(t, "<tool_call>") && has(t, "</tool_call>") && !has(t, "<function=") && !has(t, "<arg_key>");
}

bool asks_for_bare_json(std::string_view t) {
  return has(t, "\"parameters\": dictionary") || has(t, "<|python_tag|>") || has(t, "ipython");
}

constexpr ToolStyle kStyles[] = {
    {"hermes", asks_for_tags, make_tagged_tool_parser},
    {"llama3_json", asks_for_bare_json, make_bare_tool_parser},
};

void add(ToolReply& reply, ToolDelta delta) {
  reply.content += delta.content;
  for (ToolCallDelta& piece : delta.calls) {
    if (static_cast<size_t>(piece.index) == reply.calls.size()) reply.calls.emplace_back();
    ToolCall& call = reply.calls[static_cast<size_t>(piece.index)];
    call.name += piece.name;
    call.arguments += piece.arguments;
  }
}

}  // namespace

std::span<const ToolStyle> tool_styles() { return kStyles; }

const ToolStyle& tool_style(std::string_view name) {
  std::string names;
  for (const ToolStyle& style : kStyles) {
    if (style.name == name) return style;
    names += cat(names.empty() ? "" : ", ", style.name);
  }
  throw Error(ErrorKind::kInvalidInput, cat("unknown tool call parser '", name, "', known are: ", names),
              "tool_call_parser");
}

const ToolStyle* detect_tool_style(std::string_view chat_template) {
  for (const ToolStyle& style : kStyles)
    if (style.matches(chat_template)) return &style;
  return nullptr;
}

ToolReply parse_tool_calls(const ToolStyle& style, std::string_view text) {
  std::unique_ptr<ToolCallParser> parser = style.make();
  ToolReply reply;
  add(reply, parser->push(text));
  add(reply, parser->finish());
  return reply;
}

}  // namespace quaver
