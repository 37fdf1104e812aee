// POST /v1/completions: from the body to runs of the engine.
#include "server/completion_answer.h"
#include "server/endpoints.h"
#include "server/errors.h"
#include "server/server.h"

namespace quaver::server {
namespace {

constexpr size_t kMaxPrompts = 2048, kMaxChoices = 2048;
constexpr int64_t kDefaultMaxTokens = 16;

bool is_blank(const std::string& text) { return text.find_first_not_of(" \t\r\n") == std::string::npos; }

class PromptReader {
 public:
  PromptReader(Fields& fields, const ServedModel& model)
      : fields_(fields),
        model_(model),
        add_special_tokens_(fields.boolean("add_special_tokens").value_or(true)) {}

  std::vector<CompletionPrompt> read() {
    const json* prompt = fields_.raw("prompt");
    if (!prompt) return fields_.missing("prompt"), std::move(out_);
    if (prompt->is_array() && prompt->empty())
      return fields_.wrong("too_short", "prompt", "must have at least 1 entry", *prompt), std::move(out_);
    if (prompt->is_string())
      add_text(*prompt, "prompt");
    else if (prompt->is_array() && prompt->front().is_number())
      add_ids(*prompt, "prompt");
    else if (prompt->is_array())
      add_many(*prompt);
    else
      fields_.wrong("string_type", "prompt", "must be text, a list of text, token ids or lists of token ids",
                    *prompt);
    return std::move(out_);
  }

 private:
  void add_many(const json& prompts) {
    if (prompts.size() > kMaxPrompts)
      return fields_.wrong("too_long", "prompt", cat("must have at most ", kMaxPrompts, " entries"),
                           prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      std::string path = cat("prompt.", i);
      if (prompts[i].is_string())
        add_text(prompts[i], path);
      else if (prompts[i].is_array())
        add_ids(prompts[i], path);
      else
        fields_.wrong("string_type", path, "must be text or a list of token ids", prompts[i]);
    }
  }

  void add_text(const json& prompt, const std::string& path) {
    const auto& text = prompt.get_ref<const std::string&>();
    if (is_blank(text)) return fields_.wrong("string_too_short", path, "must not be blank", prompt);
    out_.push_back({text, {}});
  }

  void add_ids(const json& ids, const std::string& path) {
    if (ids.empty()) return fields_.wrong("too_short", path, "must have at least 1 token", ids);
    CompletionPrompt prompt;
    const int32_t top = model_.text().pipeline.tokenizer().vocab_size() - 1;
    for (size_t i = 0; i < ids.size(); ++i) {
      auto id = fields_.check_integer(ids[i], cat(path, ".", i), {0, top});
      if (!id) return;
      prompt.tokens.push_back(static_cast<int32_t>(*id));
    }
    out_.push_back(std::move(prompt));
  }

  Fields& fields_;
  const ServedModel& model_;

 public:
  const bool add_special_tokens_;

 private:
  std::vector<CompletionPrompt> out_;
};

// Encoding waits until the whole body is known to be good.
void complete_prompts(std::vector<CompletionPrompt>& prompts, const ServedModel& model,
                      bool add_special_tokens) {
  const Tokenizer& tokenizer = model.text().pipeline.tokenizer();
  for (CompletionPrompt& prompt : prompts) {
    if (prompt.tokens.empty())
      prompt.tokens = tokenizer.encode(prompt.text, add_special_tokens);
    else
      prompt.text = tokenizer.decode(prompt.tokens, false);
  }
}

}  // namespace

void completions(Call call) {
  const ServedModel& model = *call.model;
  Fields fields(parse_body(call.request));
  std::string name = model.check_name(fields);
  PromptReader reader(fields, model);
  CompletionAnswerOptions answer;
  answer.prompts = reader.read();
  SamplingRequest request = read_sampling(fields, model, TextRoute::kCompletions, call.options.max_logprobs);
  answer.echo = fields.boolean("echo").value_or(false);
  if (request.max_tokens == 0 && !answer.echo)
    fields.wrong("greater_than_equal", "max_tokens", "must be at least 1 unless echo is true", 0);
  const size_t choices = answer.prompts.size() * static_cast<size_t>(request.n);
  if (choices > kMaxChoices)
    fields.wrong("less_than_equal", "n", cat("prompts times n must be at most ", kMaxChoices), request.n);
  fields.finish();

  complete_prompts(answer.prompts, model, reader.add_special_tokens_);
  answer.prompt_logprobs = request.params.prompt_logprobs;
  if (answer.echo && request.params.logprobs && !answer.prompt_logprobs)
    request.params.prompt_logprobs = request.params.logprobs;
  answer.prompt_only = request.max_tokens == 0;
  if (answer.prompt_only) request.max_tokens = 1;

  std::vector<int32_t> max_tokens;
  size_t longest = 0;
  for (CompletionPrompt& prompt : answer.prompts) {
    max_tokens.push_back(settle_max_tokens(request, prompt.tokens, model, kDefaultMaxTokens, "prompt"));
    request.params.max_tokens = std::max(max_tokens.back(), max_tokens.front());
    longest = std::max(longest, prompt.tokens.size());
  }
  check_logprob_volume(request.params, longest, choices, model.text().pipeline.tokenizer().vocab_size());

  AnswerHead head = make_head("cmpl-", std::move(name), std::move(request), call.model, call.reply);
  std::vector<llm::Request> runs;
  for (size_t i = 0; i < choices; ++i) {
    const size_t prompt = i / static_cast<size_t>(head.request.n);
    runs.push_back(engine_request(head, i, answer.prompts[prompt].tokens));
    runs.back().sampling.max_tokens = max_tokens[prompt];
  }
  auto listener = std::make_unique<CompletionAnswer>(std::move(head), std::move(answer));
  std::make_shared<Generation>(model.text().pipeline, call.reply, std::move(listener))
      ->start(std::move(runs), call.state.draining);
}

}  // namespace quaver::server
