// POST /v1/chat/completions: from the body to runs of the engine.
#include <algorithm>

#include "server/chat_answer.h"
#include "server/chat_prompt.h"
#include "server/endpoints.h"
#include "server/errors.h"
#include "server/server.h"

namespace quaver::server {
namespace {

void check_modalities(Fields& fields) {
  const json* modalities = fields.list("modalities");
  if (!modalities) return;
  if (modalities->empty())
    return fields.wrong("too_short", "modalities", "must have at least 1 entry", *modalities);
  for (size_t i = 0; i < modalities->size(); ++i) {
    const json& modality = (*modalities)[i];
    if (!modality.is_string())
      return fields.wrong("string_type", cat("modalities.", i), "must be text", modality);
    if (modality != "text" && fields.good())
      throw refused(cat("this model cannot answer with the modality '",
                        modality.get<std::string>().substr(0, 40), "'; it answers with text"),
                    cat("body.modalities.", i));
  }
}

// Fields that are legal here and change nothing for a model of text alone.
void accept_unused(Fields& fields) {
  fields.ignore({"audio", "voice", "speaker", "language", "instructions", "additional_information",
                 "mm_processor_kwargs", "media_io_kwargs"});
  if (const json* list = fields.list("sampling_params_list"); list && !list->empty() && fields.good())
    throw refused(
        "'sampling_params_list' sets parameters per stage, and this model has one stage; put them at the "
        "root of the body",
        "body.sampling_params_list");
}

std::string echo_text(Fields& fields, const ChatPrompt& prompt) {
  if (!fields.boolean("echo").value_or(false) || !fields.good()) return "";
  const ordered_json& last = prompt.messages.back();
  if (last.at("role") != "assistant" || !last.at("content").is_string()) return "";
  return last.at("content").get<std::string>();
}

std::optional<int64_t> default_max_tokens(const ServedModel& model) {
  for (const char* name : {"max_tokens", "max_new_tokens"})
    if (auto most = model.defaults.find(name); most != model.defaults.end() && most->is_number_integer())
      return std::max<int64_t>(most->get<int64_t>(), 1);
  return std::nullopt;
}

// How to read the answer, and how it must begin when a call is demanded. Without constrained decoding the
// model can still write arguments that are no JSON; those come back as content.
void prepare_parsing(const ChatPrompt& prompt, const Call& call, ChatAnswerOptions& answer) {
  const ServedModel& model = *call.model;
  const ChatTemplate* source = model.text().pipeline.chat_template();
  if (call.options.parse_reasoning && source)
    answer.style.chat_template = prompt.chat_template.empty() ? source->source() : prompt.chat_template;
  if (!prompt.offers_tools()) return;
  answer.style.tools = model.text().tool_style;
  if (prompt.tool_choice.kind == ToolChoice::Kind::kAuto) return;
  if (!answer.style.tools)
    throw refused("a call cannot be required of this model: how it writes calls is not known",
                  "body.tool_choice");
  answer.opening = call_opening(*answer.style.tools, prompt.tool_choice.name);
}

}  // namespace

void chat_completions(Call call) {
  const ServedModel& model = *call.model;
  Fields fields(parse_body(call.request));
  std::string name = model.check_name(fields);
  ChatPrompt prompt = read_chat_prompt(fields, call.request.body, call);
  SamplingRequest request = read_sampling(fields, model, TextRoute::kChat, call.options.max_logprobs);
  ChatAnswerOptions answer;
  answer.include_reasoning = fields.boolean("include_reasoning").value_or(true);
  answer.echo = echo_text(fields, prompt);
  answer.parallel_calls = fields.boolean("parallel_tool_calls").value_or(true);
  check_modalities(fields);
  accept_unused(fields);
  fields.finish();

  prepare_parsing(prompt, call, answer);
  RenderedChat rendered = render_chat(prompt, model, answer.opening);
  request.params.max_tokens =
      settle_max_tokens(request, rendered.tokens, model, default_max_tokens(model), "messages");
  check_logprob_volume(request.params, rendered.tokens.size(), static_cast<size_t>(request.n),
                       model.text().pipeline.tokenizer().vocab_size());
  answer.prompt_tokens = rendered.tokens;
  answer.style.prompt = rendered.text.substr(0, rendered.text.size() - answer.opening.size());
  answer.prompt_text = std::move(rendered.text);

  AnswerHead head = make_head("chatcmpl-", std::move(name), std::move(request), call.model, call.reply);
  std::vector<llm::Request> runs;
  for (size_t i = 0; i < static_cast<size_t>(head.request.n); ++i)
    runs.push_back(engine_request(head, i, answer.prompt_tokens));
  auto listener = std::make_unique<ChatAnswer>(std::move(head), std::move(answer));
  std::make_shared<Generation>(model.text().pipeline, call.reply, std::move(listener))
      ->start(std::move(runs), call.state.draining);
}

}  // namespace quaver::server
