#include "server/messages.h"

#include <algorithm>
#include <array>

#include "server/errors.h"

namespace quaver::server {
namespace {

constexpr size_t kMaxKeys = 1000;
constexpr std::array<std::string_view, 4> kOrdered = {"messages", "tools", "documents",
                                                      "chat_template_kwargs"};

// Objects that keep their order search by walking: a million keys in one would take minutes.
void check_key_counts(const json& value, std::string_view where) {
  if (value.is_object() && value.size() > kMaxKeys)
    throw refused(
        cat("an object in '", where, "' has ", value.size(), " keys; at most ", kMaxKeys, " are allowed"),
        cat("body.", where));
  if (value.is_structured())
    for (const auto& inner : value) check_key_counts(inner, where);
}

bool is_ordered_name(std::string_view name) {
  return std::find(kOrdered.begin(), kOrdered.end(), name) != kOrdered.end();
}

struct PartKind {
  std::string_view type, key, ability;  // ability "" = text
};
constexpr std::array kParts = {
    PartKind{"text", "text", ""},
    PartKind{"input_text", "text", ""},
    PartKind{"output_text", "text", ""},
    PartKind{"refusal", "refusal", ""},
    PartKind{"image_url", "image_url", "image_input"},
    PartKind{"input_image", "image_url", "image_input"},
    PartKind{"input_audio", "input_audio", "audio_input"},
    PartKind{"audio_url", "audio_url", "audio_input"},
    PartKind{"video_url", "video_url", "video_input"},
};

json plain(const ordered_json& value) { return json::parse(value.dump(-1, ' ', true)); }

class MessageReader {
 public:
  MessageReader(Fields& fields, const ServedModel& model) : fields_(fields), model_(model) {}

  ordered_json read(const ordered_json& message, const std::string& path) {
    ordered_json out = ordered_json::object();
    if (!message.is_object()) {
      fields_.wrong("dict_type", path, "must be an object", plain(message));
      return out;
    }
    std::string role = read_role(message, path);
    out["role"] = role == "developer" && !model_.text().traits.developer ? "system" : role;
    out["content"] = read_content(message, role, path);
    copy_text(message, out, "name", path);
    if (role == "tool") copy_text(message, out, "tool_call_id", path);
    if (role == "assistant") read_assistant(message, out, path);
    return out;
  }

 private:
  std::string read_role(const ordered_json& message, const std::string& path) {
    static constexpr std::array<std::string_view, 5> roles = {"system", "developer", "user", "assistant",
                                                              "tool"};
    auto role = message.find("role");
    if (role == message.end()) return fields_.missing(path + ".role"), "";
    if (!role->is_string())
      return fields_.wrong("string_type", path + ".role", "must be text", plain(*role)), "";
    if (std::find(roles.begin(), roles.end(), role->get<std::string>()) == roles.end())
      fields_.wrong("literal_error", path + ".role",
                    "must be one of system, developer, user, assistant, tool", plain(*role));
    return role->get<std::string>();
  }

  // "" and null are alike, whatever the role; absent is allowed to the assistant, whose turn may be calls
  // alone.
  ordered_json read_content(const ordered_json& message, const std::string& role, const std::string& path) {
    auto content = message.find("content");
    if (content == message.end()) {
      if (role != "assistant") fields_.missing(path + ".content");
      return as_template_wants(ordered_json::array());
    }
    if (content->is_null()) return as_template_wants(ordered_json::array());
    if (content->is_string())
      return model_.text().traits.strings ? *content
                                          : as_template_wants(ordered_json::array({text_part(*content)}));
    if (content->is_array()) return as_template_wants(read_parts(*content, path + ".content"));
    fields_.wrong("string_type", path + ".content", "must be text, null or a list of parts", plain(*content));
    return "";
  }

  static ordered_json text_part(const ordered_json& text) { return {{"type", "text"}, {"text", text}}; }

  ordered_json read_parts(const ordered_json& parts, const std::string& path) {
    ordered_json out = ordered_json::array();
    for (size_t i = 0; i < parts.size(); ++i) {
      std::string here = cat(path, ".", i);
      if (parts[i].is_string())
        out.push_back(text_part(parts[i]));
      else if (const ordered_json* text = read_part(parts[i], here))
        out.push_back(text_part(*text));
    }
    return out;
  }

  const ordered_json* read_part(const ordered_json& part, const std::string& path) {
    if (!part.is_object()) return fields_.wrong("dict_type", path, "must be an object", plain(part)), nullptr;
    auto type = part.find("type");
    if (type == part.end()) return fields_.missing(path + ".type"), nullptr;
    auto kind = std::find_if(kParts.begin(), kParts.end(), [&](const PartKind& k) {
      return type->is_string() && *type == std::string(k.type);
    });
    if (kind == kParts.end())
      return fields_.wrong("literal_error", path + ".type",
                           "must be one of text, image_url, input_audio, audio_url, video_url", plain(*type)),
             nullptr;
    if (!kind->ability.empty())
      throw refused(cat("a message holds a part of type '", kind->type, "', but this model has no ",
                        kind->ability, " ability; it takes text only"),
                    cat("body.", path));
    auto text = part.find(std::string(kind->key));
    if (text == part.end()) return fields_.missing(cat(path, ".", kind->key)), nullptr;
    if (!text->is_string())
      return fields_.wrong("string_type", cat(path, ".", kind->key), "must be text", plain(*text)), nullptr;
    return &*text;
  }

  // Parts stay a list where the template walks over lists; elsewhere they are joined by line breaks.
  ordered_json as_template_wants(const ordered_json& parts) const {
    if (!model_.text().traits.strings || (model_.text().traits.lists && parts.size() > 1)) return parts;
    std::string joined;
    for (size_t i = 0; i < parts.size(); ++i)
      joined += cat(i ? "\n" : "", parts[i].at("text").get_ref<const std::string&>());
    return joined;
  }

  bool copy_text(const ordered_json& from, ordered_json& to, const char* name, const std::string& path) {
    auto value = from.find(name);
    if (value == from.end() || value->is_null()) return false;
    if (!value->is_string())
      return fields_.wrong("string_type", cat(path, ".", name), "must be text", plain(*value)), false;
    to[name] = *value;
    return true;
  }

  void read_assistant(const ordered_json& message, ordered_json& out, const std::string& path) {
    for (const char* name : {"reasoning", "reasoning_content"})
      if (copy_text(message, out, name, path)) out["reasoning"] = out["reasoning_content"] = out[name];
    auto calls = message.find("tool_calls");
    if (calls == message.end() || calls->is_null()) return;
    if (!calls->is_array())
      return fields_.wrong("list_type", path + ".tool_calls", "must be a list", plain(*calls));
    ordered_json list = ordered_json::array();
    for (size_t i = 0; i < calls->size(); ++i)
      list.push_back(read_call((*calls)[i], cat(path, ".tool_calls.", i)));
    if (!list.empty()) out["tool_calls"] = std::move(list);
  }

  ordered_json read_call(const ordered_json& call, const std::string& path) {
    ordered_json function = ordered_json::object();
    if (!call.is_object())
      return fields_.wrong("dict_type", path, "must be an object", plain(call)), function;
    auto given = call.find("function");
    if (given == call.end()) return fields_.missing(path + ".function"), function;
    if (!given->is_object())
      return fields_.wrong("dict_type", path + ".function", "must be an object", plain(*given)), function;
    if (!copy_text(*given, function, "name", path + ".function")) fields_.missing(path + ".function.name");
    function["arguments"] = read_arguments(*given, path + ".function.arguments");
    ordered_json out = ordered_json::object();
    copy_text(call, out, "id", path);
    out["type"] = "function";
    out["function"] = std::move(function);
    return out;
  }

  // Templates print arguments as an object, while clients send them as JSON text.
  ordered_json read_arguments(const ordered_json& function, const std::string& path) {
    auto given = function.find("arguments");
    if (given == function.end() || given->is_null()) return ordered_json::object();
    if (given->is_object()) return *given;
    if (!given->is_string())
      return fields_.wrong("string_type", path, "must be JSON text", plain(*given)), ordered_json::object();
    const auto& text = given->get_ref<const std::string&>();
    if (text.empty()) return ordered_json::object();
    try {
      json parsed = parse_json(text, "arguments");
      check_key_counts(parsed, "messages");
      if (parsed.is_object()) return ordered_json::parse(text);
    } catch (const Error&) {
    }
    return fields_.wrong("json_invalid", path, "must be the text of a JSON object", text),
           ordered_json::object();
  }

  Fields& fields_;
  const ServedModel& model_;
};

void check_tool(Fields& fields, const ordered_json& tool, const std::string& path) {
  if (!tool.is_object()) return fields.wrong("dict_type", path, "must be an object", plain(tool));
  auto type = tool.find("type");
  if (type != tool.end() && *type != "function")
    fields.wrong("literal_error", path + ".type", "must be function", plain(*type));
  auto function = tool.find("function");
  if (function == tool.end()) return fields.missing(path + ".function");
  if (!function->is_object())
    return fields.wrong("dict_type", path + ".function", "must be an object", plain(*function));
  auto name = function->find("name");
  if (name == function->end()) return fields.missing(path + ".function.name");
  if (!name->is_string() || name->get_ref<const std::string&>().empty())
    fields.wrong("string_type", path + ".function.name", "must be text that is not empty", plain(*name));
  for (auto [key, ok, what] : {std::tuple{"description", &ordered_json::is_string, "must be text"},
                               std::tuple{"parameters", &ordered_json::is_object, "must be an object"},
                               std::tuple{"strict", &ordered_json::is_boolean, "must be true or false"}})
    if (auto value = function->find(key); value != function->end() && !value->is_null() && !((*value).*ok)())
      fields.wrong("value_error", cat(path, ".function.", key), what, plain(*value));
}

const ordered_json* find_object(const ordered_json& object, const char* name) {
  auto found = object.find(name);
  return found != object.end() && found->is_object() ? &*found : nullptr;
}

bool has_tool(const ordered_json& tools, const std::string& name) {
  return std::any_of(tools.begin(), tools.end(),
                     [&](const ordered_json& tool) { return tool.at("function").at("name") == name; });
}

}  // namespace

ordered_json ordered_members(Fields& fields, const std::string& body) {
  for (std::string_view name : kOrdered)
    if (const json* value = fields.raw(name.data())) check_key_counts(*value, name);
  bool in_extra = false;
  auto keep = [&](int depth, ordered_json::parse_event_t event, ordered_json& key) {
    if (event != ordered_json::parse_event_t::key || depth > 2) return true;
    if (depth == 2) return !in_extra || is_ordered_name(key.get_ref<const std::string&>());
    in_extra = key == "extra_body";
    return in_extra || is_ordered_name(key.get_ref<const std::string&>());
  };
  ordered_json all = ordered_json::parse(body, keep);
  ordered_json out = ordered_json::object();
  for (const ordered_json* place : {static_cast<const ordered_json*>(&all), find_object(all, "extra_body")})
    for (std::string_view name : kOrdered)
      if (place && !out.contains(std::string(name)) && place->contains(std::string(name)) &&
          !place->at(std::string(name)).is_null())
        out[std::string(name)] = place->at(std::string(name));
  return out;
}

ordered_json read_messages(Fields& fields, const ordered_json& members, const ServedModel& model) {
  ordered_json out = ordered_json::array();
  const json* given = fields.list("messages");
  if (!fields.raw("messages")) return fields.missing("messages"), out;
  if (!given) return out;
  if (given->empty())
    return fields.wrong("too_short", "messages", "must have at least 1 message", *given), out;
  MessageReader reader(fields, model);
  const ordered_json& messages = members.at("messages");
  for (size_t i = 0; i < messages.size(); ++i) out.push_back(reader.read(messages[i], cat("messages.", i)));
  return out;
}

ordered_json read_tools(Fields& fields, const ordered_json& members) {
  const json* given = fields.list("tools");
  if (!given) return nullptr;
  if (given->empty())
    return fields.wrong("too_short", "tools", "must have at least 1 tool when it is given", *given), nullptr;
  const ordered_json& tools = members.at("tools");
  for (size_t i = 0; i < tools.size(); ++i) check_tool(fields, tools[i], cat("tools.", i));
  return tools;
}

ToolChoice read_tool_choice(Fields& fields, const ordered_json& tools) {
  ToolChoice choice;
  choice.kind = tools.is_null() ? ToolChoice::Kind::kNone : ToolChoice::Kind::kAuto;
  const json* given = fields.raw("tool_choice");
  if (!given || !fields.good()) return choice;
  if (*given == "none") return {};
  if (tools.is_null()) return fields.wrong("value_error", "tool_choice", "needs tools", *given), choice;
  if (*given == "auto") return choice;
  if (*given == "required") return {ToolChoice::Kind::kRequired, ""};
  bool named = given->is_object() && given->contains("function") && (*given)["function"].is_object() &&
               (*given)["function"].contains("name") && (*given)["function"]["name"].is_string();
  if (!named) {
    fields.wrong("literal_error", "tool_choice", "must be none, auto, required or a function by name",
                 *given);
    return choice;
  }
  choice = {ToolChoice::Kind::kNamed, (*given)["function"]["name"].get<std::string>()};
  if (!has_tool(tools, choice.name))
    fields.wrong("value_error", "tool_choice.function.name", "is not among the tools", choice.name);
  return choice;
}

}  // namespace quaver::server
