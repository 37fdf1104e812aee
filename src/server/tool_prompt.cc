#include "server/tool_prompt.h"

namespace quaver::server {
namespace {

std::string describe(const ordered_json& tools) {
  std::string out =
      "You can call functions. These are their signatures, one JSON object per line:\n<tools>\n";
  for (const ordered_json& tool : tools) out += tool.dump() + "\n";
  out +=
      "</tools>\nTo call one, answer with its name and arguments as one JSON object between tags, like "
      "this:\n"
      "<tool_call>\n{\"name\": \"function name\", \"arguments\": {\"argument\": \"value\"}}\n</tool_call>";
  return out;
}

std::string text_of(const ordered_json& message) {
  return message.at("content").is_string() ? message.at("content").get<std::string>() : std::string();
}

void write_calls(ordered_json& message) {
  std::string text = text_of(message);
  for (const ordered_json& call : message.at("tool_calls")) {
    ordered_json shown = {{"name", call.at("function").at("name")},
                          {"arguments", call.at("function").at("arguments")}};
    text += cat(text.empty() ? "" : "\n", "<tool_call>\n", shown.dump(), "\n</tool_call>");
  }
  message["content"] = text;
  message.erase("tool_calls");
}

}  // namespace

bool template_takes_tools(std::string_view source) { return source.find("tools") != std::string_view::npos; }

void write_tools_as_text(ordered_json& messages, const ordered_json& tools) {
  for (ordered_json& message : messages) {
    if (message.contains("tool_calls")) write_calls(message);
    if (message.at("role") == "tool")
      message = {{"role", "user"},
                 {"content", cat("<tool_response>\n", text_of(message), "\n</tool_response>")}};
  }
  if (tools.is_null()) return;
  if (messages.front().at("role") != "system")
    messages.insert(messages.begin(), ordered_json{{"role", "system"}, {"content", describe(tools)}});
  else
    messages.front()["content"] = cat(text_of(messages.front()), "\n\n", describe(tools));
}

}  // namespace quaver::server
