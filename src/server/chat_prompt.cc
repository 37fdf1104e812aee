#include "server/chat_prompt.h"

#include <algorithm>
#include <array>

#include "server/errors.h"
#include "server/server.h"
#include "server/tool_prompt.h"

namespace quaver::server {
namespace {

void read_switches(Fields& fields, ChatPrompt& prompt) {
  bool stated = fields.stated("add_generation_prompt");
  prompt.input.continue_final_message = fields.boolean("continue_final_message").value_or(false);
  bool add = fields.boolean("add_generation_prompt").value_or(true);
  if (prompt.input.continue_final_message && add && stated)
    fields.wrong("value_error", "continue_final_message",
                 "cannot be true together with add_generation_prompt", true);
  prompt.input.add_generation_prompt = add && !prompt.input.continue_final_message;
  prompt.add_special_tokens = fields.boolean("add_special_tokens").value_or(false);
}

// The words of reasoning_effort set the switch under the name that templates of today use; the request's own
// chat_template_kwargs stand above it.
void read_thinking(Fields& fields, const ordered_json& members, ChatPrompt& prompt) {
  static constexpr std::array<std::string_view, 7> efforts = {"none", "minimal", "low", "medium",
                                                              "high", "xhigh",   "max"};
  if (auto effort = fields.word("reasoning_effort", efforts)) {
    prompt.input.extra["reasoning_effort"] = *effort;
    prompt.input.extra["enable_thinking"] = *effort != "none";
  }
  if (fields.object("chat_template_kwargs"))
    for (const auto& [name, value] : members.at("chat_template_kwargs").items())
      prompt.input.extra[name] = value;
}

void read_documents(Fields& fields, const ordered_json& members, ChatPrompt& prompt) {
  const json* documents = fields.list("documents");
  if (!documents) return;
  for (size_t i = 0; i < documents->size(); ++i)
    if (!(*documents)[i].is_object())
      fields.wrong("dict_type", cat("documents.", i), "must be an object", (*documents)[i]);
  prompt.input.documents = members.at("documents");
}

void read_template(Fields& fields, const Call& call, ChatPrompt& prompt) {
  auto text = fields.text("chat_template", {1, size_t{1} << 20});
  if (!text) return;
  if (!call.options.trust_request_chat_template)
    throw refused(
        "'chat_template' is not taken from requests unless the server was started with "
        "--trust-request-chat-template",
        "body.chat_template");
  prompt.chat_template = std::move(*text);
}

std::string without(const std::string& text, std::string_view mark) {
  std::string out;
  for (size_t from = 0; from <= text.size();) {
    size_t to = std::min(text.find(mark, from), text.size());
    out.append(text, from, to - from);
    from = to + mark.size();
  }
  return out;
}

bool ends_in_open_thinking(std::string_view text) {
  while (text.ends_with('\n') || text.ends_with(' ')) text.remove_suffix(1);
  return text.ends_with("<think>");
}

std::string run_template(const ChatPrompt& prompt, const ServedModel& model, ChatTemplateInput input) {
  std::unique_ptr<ChatTemplate> own;
  const ChatTemplate* source = model.text().pipeline.chat_template();
  try {
    if (!prompt.chat_template.empty()) {
      own = ChatTemplate::compile(prompt.chat_template, "chat_template");
      source = own.get();
    }
    if (!source) throw refused("this model has no chat template; use /v1/completions", "body.messages");
    if (!template_takes_tools(source->source()) && model.text().traits.strings) {
      write_tools_as_text(input.messages, input.tools);
      input.tools = nullptr;
    }
    return source->render(input);
  } catch (const Error& e) {
    throw refused(e.what(), prompt.chat_template.empty() ? "body.messages" : "body.chat_template");
  }
}

}  // namespace

ChatPrompt read_chat_prompt(Fields& fields, const std::string& body, const Call& call) {
  ChatPrompt prompt;
  ordered_json members = ordered_members(fields, body);
  prompt.messages = read_messages(fields, members, *call.model);
  prompt.tools = read_tools(fields, members);
  prompt.tool_choice = read_tool_choice(fields, prompt.tools);
  read_switches(fields, prompt);
  read_thinking(fields, members, prompt);
  read_documents(fields, members, prompt);
  read_template(fields, call, prompt);
  if (prompt.input.continue_final_message && fields.good() &&
      prompt.messages.back().at("role") != "assistant")
    fields.wrong("value_error", "continue_final_message", "needs a last message of the assistant", true);
  return prompt;
}

RenderedChat render_chat(const ChatPrompt& prompt, const ServedModel& model, std::string_view opening) {
  ChatTemplateInput input = prompt.input;
  input.bos_token = model.pipeline.card().bos_token;
  input.eos_token = model.pipeline.card().eos_token;
  ordered_json texts = ordered_json::array({prompt.messages, prompt.tools, input.documents});
  const std::string mark = SpecialText::choose_mark(texts);
  model.text().specials.mark(texts, mark);
  input.messages = std::move(texts[0]);
  // Told not to call anything, the model is best not shown what it could call.
  if (prompt.offers_tools()) input.tools = std::move(texts[1]);
  input.documents = std::move(texts[2]);
  RenderedChat out;
  out.text = run_template(prompt, model, std::move(input));
  if (!opening.empty() && ends_in_open_thinking(out.text)) out.text += "\n</think>\n\n";
  out.text += opening;
  out.tokens = model.text().specials.encode(out.text, mark, prompt.add_special_tokens);
  out.text = without(out.text, mark);
  return out;
}

}  // namespace quaver::server
