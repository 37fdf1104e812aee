#include "text/tool_call_json.h"

namespace quaver {
namespace {

constexpr JsonLimits kLimits{.max_bytes = size_t{4} << 20};
constexpr std::string_view kSpace = " \t\r\n";

bool is_json_object(std::string_view text) {
  try {
    return parse_json(text, "tool call", kLimits).is_object();
  } catch (const Error&) {
    return false;
  }
}

// The text of the value of `key` in a valid JSON object. Precondition: the key is there.
std::string_view value_text(std::string_view object, std::string_view key) {
  size_t i = object.find('{') + 1;
  auto skip = [&](std::string_view characters) { i = object.find_first_not_of(characters, i); };
  auto end_of_string = [&](size_t k) {
    while (object[++k] != '"') k += object[k] == '\\';
    return k + 1;
  };
  while (true) {
    skip(" \t\r\n,");
    size_t name_end = end_of_string(i);
    bool found = json::parse(object.substr(i, name_end - i)).get<std::string>() == key;
    i = name_end;
    skip(" \t\r\n:");
    size_t start = i;
    for (int depth = 0; depth > 0 || (object[i] != ',' && object[i] != '}'); ++i) {
      depth += object[i] == '{' || object[i] == '[';
      depth -= object[i] == '}' || object[i] == ']';
      if (object[i] == '"') i = end_of_string(i) - 1;
    }
    std::string_view value = object.substr(start, i - start);
    if (found) return value.substr(0, value.find_last_not_of(kSpace) + 1);
  }
}

// Some models quote the arguments once more.
std::optional<std::string> arguments_text(const json& call, const char* key, std::string_view object) {
  const json& arguments = call.at(key);
  if (arguments.is_null()) return "{}";
  if (arguments.is_object()) return std::string(value_text(object, key));
  if (!arguments.is_string()) return std::nullopt;
  std::string text = arguments.get<std::string>();
  if (text.find_first_not_of(kSpace) == text.npos) return "{}";
  return is_json_object(text) ? std::optional(text) : std::nullopt;
}

}  // namespace

size_t JsonObjectScanner::scan(std::string_view text) {
  for (; position_ < text.size(); ++position_) {
    char c = text[position_];
    if (in_string_) {
      if (escaped_)
        escaped_ = false;
      else if (c == '\\')
        escaped_ = true;
      else if (c == '"')
        in_string_ = false;
      continue;
    }
    in_string_ = c == '"';
    if (c == '{' || c == '[') ++depth_;
    if ((c == '}' || c == ']') && --depth_ == 0) return ++position_;
  }
  return std::string_view::npos;
}

std::optional<ToolCall> parse_tool_call(std::string_view object) {
  json call;
  try {
    call = parse_json(object, "tool call", kLimits);
  } catch (const Error&) {
    return std::nullopt;
  }
  if (!call.is_object() || !call.contains("name") || !call["name"].is_string()) return std::nullopt;
  std::string name = call["name"];
  if (name.empty()) return std::nullopt;
  const char* key = call.contains("arguments") ? "arguments" : "parameters";
  if (!call.contains(key)) return ToolCall{std::move(name), "{}"};
  std::optional<std::string> arguments = arguments_text(call, key, object);
  if (!arguments) return std::nullopt;
  return ToolCall{std::move(name), std::move(*arguments)};
}

}  // namespace quaver
