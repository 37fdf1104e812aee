#include "text/chat_template.h"

#include <algorithm>

#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/parser.h"

namespace quaver {
namespace {

using jinja::Value;

constexpr size_t kMaxSource = size_t{4} << 20;
// Written behind the final message, so that everything from there on can be cut from the rendered text.
constexpr std::string_view kContinueMark = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr const char* kReasoningFields[] = {"reasoning_content", "thinking", "reasoning"};

Value to_value(const ordered_json& j, int depth = 0) {
  require(depth < jinja::kMaxContainerDepth / 2, ErrorKind::kInvalidInput,
          "the messages are nested deeper than ", jinja::kMaxContainerDepth / 2, " levels");
  if (j.is_null()) return Value();
  if (j.is_boolean()) return Value::boolean(j.get<bool>());
  if (j.is_string()) return Value::string(j.get_ref<const std::string&>());
  if (j.is_number_unsigned())
    require(j.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX), ErrorKind::kInvalidInput, "integer ",
            j.dump(), " does not fit 64 bits");
  if (j.is_number_integer()) return Value::integer(j.get<int64_t>());
  if (j.is_number_float()) return Value::number(j.get<double>());
  if (j.is_array()) {
    std::vector<Value> items;
    for (const auto& item : j) items.push_back(to_value(item, depth + 1));
    return Value::list(std::move(items));
  }
  auto dict = std::make_shared<jinja::Dict>();
  for (const auto& [key, value] : j.items()) dict->set(key, to_value(value, depth + 1));
  return Value::dict(std::move(dict));
}

// Keys whose value is null are dropped, and reasoning goes by all of its names, as Transformers passes it.
ordered_json normalized_message(const ordered_json& message) {
  require(message.is_object(), ErrorKind::kInvalidInput, "a message must be an object, got ",
          message.dump().substr(0, 80));
  ordered_json kept = ordered_json::object();
  for (const auto& [key, value] : message.items())
    if (!value.is_null()) kept[key] = value;
  const char* const* field = std::find_if(std::begin(kReasoningFields), std::end(kReasoningFields),
                                          [&](const char* name) { return kept.contains(name); });
  if (field == std::end(kReasoningFields)) return kept;
  ordered_json reasoning = kept[*field], out = ordered_json::object();
  out["thinking"] = reasoning;
  for (const auto& [key, value] : kept.items()) out[key] = value;
  out["reasoning_content"] = reasoning;
  return out;
}

ordered_json normalized_messages(const ordered_json& messages) {
  require(messages.is_array() && !messages.empty(), ErrorKind::kInvalidInput,
          "messages must be a list of at least one message");
  ordered_json out = ordered_json::array();
  for (const auto& message : messages) out.push_back(normalized_message(message));
  return out;
}

// Appends the mark to the final message's text and returns that text as it was.
std::string mark_final_message(ordered_json& message) {
  require(message.contains("content"), ErrorKind::kInvalidInput,
          "continue_final_message is set but the final message has no \"content\" to continue");
  ordered_json& content = message["content"];
  ordered_json* text = content.is_string() ? &content : nullptr;
  if (content.is_array())
    for (auto part = content.rbegin(); part != content.rend() && !text; ++part)
      if (part->is_object() && part->contains("text")) text = &(*part)["text"];
  require(text && text->is_string(), ErrorKind::kInvalidInput,
          "continue_final_message is set but the final message has no text to continue");
  std::string before = text->get<std::string>();
  *text = before + std::string(kContinueMark);
  return before;
}

std::string_view trimmed(std::string_view s, bool left) { return jinja::strip(s, std::nullopt, left, true); }

std::string cut_at_mark(const std::string& rendered, const std::string& final_text) {
  size_t mark = rendered.rfind(trimmed(kContinueMark, true));
  require(mark != std::string::npos && rendered.find(trimmed(final_text, true)) != std::string::npos,
          ErrorKind::kInvalidInput,
          "continue_final_message is set but the final message does not appear in the chat after applying "
          "the chat "
          "template: the template deletes portions of it");
  std::string_view before = std::string_view(rendered).substr(0, mark);
  bool spaced = std::string_view(rendered).substr(mark).starts_with(kContinueMark);
  return std::string(spaced ? before : trimmed(before, false));
}

class JinjaTemplate : public ChatTemplate {
 public:
  JinjaTemplate(std::string_view source, std::string_view what)
      : what_(what),
        source_(source),
        mentions_content_(source.find("content") != source.npos),
        tree_(jinja::parse(source)) {}

  std::string_view source() const override { return source_; }

  std::string render(const ChatTemplateInput& input) const override {
    require(!(input.continue_final_message && input.add_generation_prompt), ErrorKind::kInvalidInput,
            "continue_final_message and add_generation_prompt are not compatible");
    ordered_json messages = normalized_messages(input.messages);
    if (!input.continue_final_message) return run(input, messages);
    require(mentions_content_, ErrorKind::kInvalidInput,
            "continue_final_message is set but the chat template does not use \"content\"");
    std::string final_text = mark_final_message(messages.back());
    return cut_at_mark(run(input, messages), final_text);
  }

 private:
  std::string run(const ChatTemplateInput& input, const ordered_json& messages) const {
    jinja::Interpreter interpreter(tree_);
    try {
      set_variables(interpreter, input, messages);
      return interpreter.render();
    } catch (const jinja::Fault& fault) {
      throw Error(ErrorKind::kInvalidInput, cat(what_, ", line ", interpreter.line(), ": ", fault.message));
    }
  }

  void set_variables(jinja::Interpreter& interpreter, const ChatTemplateInput& input,
                     const ordered_json& messages) const {
    auto set = [&](std::string_view name, const ordered_json& value) {
      for (jinja::Symbol s = 0; s < static_cast<jinja::Symbol>(tree_.symbols.size()); ++s)
        if (tree_.symbols.name(s) == name) interpreter.set_variable(s, to_value(value));
    };
    if (!input.bos_token.empty()) set("bos_token", input.bos_token);
    if (!input.eos_token.empty()) set("eos_token", input.eos_token);
    set("messages", messages);
    set("tools", input.tools);
    set("documents", input.documents);
    set("add_generation_prompt", input.add_generation_prompt);
    if (!input.extra.is_object()) return;
    static constexpr std::string_view kReserved[] = {"messages", "tools", "documents",
                                                     "add_generation_prompt"};
    for (const auto& [name, value] : input.extra.items()) {
      require(std::find(std::begin(kReserved), std::end(kReserved), name) == std::end(kReserved),
              ErrorKind::kInvalidInput, "chat_template_kwargs must not set '", name, "'");
      set(name, value);
    }
  }

  std::string what_, source_;
  bool mentions_content_;
  jinja::Template tree_;
};

}  // namespace

std::unique_ptr<ChatTemplate> ChatTemplate::compile(std::string_view source, std::string_view what) {
  require(source.size() <= kMaxSource, ErrorKind::kBadFile, what, ": the chat template has ", source.size(),
          " bytes, more than the ", kMaxSource, " allowed");
  try {
    return std::make_unique<JinjaTemplate>(source, what);
  } catch (const jinja::SyntaxError& e) {
    throw Error(ErrorKind::kBadFile, cat(what, ": line ", e.line, ", column ", e.column, ": ", e.message));
  } catch (const jinja::Fault& e) {
    throw Error(ErrorKind::kBadFile, cat(what, ": ", e.message));
  }
}

}  // namespace quaver
