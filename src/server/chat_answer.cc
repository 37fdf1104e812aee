#include "server/chat_answer.h"

#include <utility>

#include "server/ids.h"
#include "server/logprobs.h"

namespace quaver::server {

ChatAnswer::ChatAnswer(AnswerHead head, ChatAnswerOptions options)
    : head_(std::move(head)),
      options_(std::move(options)),
      stream_(head_.reply),
      choices_(static_cast<size_t>(head_.request.n)) {
  for (Choice& choice : choices_) choice.parser = std::make_unique<OutputParser>(options_.style);
}

void ChatAnswer::on_event(size_t index, llm::Event event) {
  Choice& choice = choices_[index];
  if (!choice.begun) begin(choice, index, event);
  add_logprobs(choice, event);
  if (head_.request.return_token_ids)
    choice.tokens.insert(choice.tokens.end(), event.tokens.begin(), event.tokens.end());
  choice.last.usage = event.usage;
  take(choice, index, choice.parser->push(event.text));
  if (event.finish == llm::FinishReason::kNone) return;
  take(choice, index, choice.parser->finish());
  choice.last = std::move(event);
  if (head_.request.stream) send_finish(choice, index);
}

void ChatAnswer::begin(Choice& choice, size_t index, const llm::Event& event) {
  choice.begun = true;
  if (head_.request.params.prompt_logprobs)
    choice.prompt_logprobs =
        prompt_logprobs_json(head_.model->text().pipeline.tokenizer(), event.prompt_logprobs);
  if (head_.request.stream) {
    ordered_json extra;
    if (head_.request.return_token_ids) extra["prompt_token_ids"] = options_.prompt_tokens;
    if (head_.request.return_prompt_text) extra["prompt_text"] = options_.prompt_text;
    send_chunk(index, {{"delta", {{"role", "assistant"}, {"content", ""}}}}, std::move(extra));
  }
  if (!options_.echo.empty()) take(choice, index, {.content = options_.echo});
  if (!options_.opening.empty()) take(choice, index, choice.parser->push(options_.opening));
}

// Whole and streamed answers go through here alike, which is what makes them equal.
void ChatAnswer::take(Choice& choice, size_t index, OutputDelta delta) {
  if (!options_.include_reasoning) delta.reasoning.clear();
  ordered_json out = ordered_json::object();
  if (!delta.reasoning.empty()) out["reasoning"] = delta.reasoning;
  if (!delta.content.empty()) out["content"] = delta.content;
  choice.reasoning += delta.reasoning;
  choice.content += delta.content;
  for (const ToolCallDelta& call : delta.tool_calls)
    if (options_.parallel_calls || call.index == 0) take_call(choice, call, out);
  if (head_.request.stream && !out.empty()) send_delta(choice, index, std::move(out));
}

void ChatAnswer::take_call(Choice& choice, const ToolCallDelta& delta, ordered_json& out) {
  const size_t index = static_cast<size_t>(delta.index);
  ordered_json entry = {{"index", delta.index}};
  ordered_json function = ordered_json::object();
  if (index >= choice.calls.size()) {
    choice.calls.resize(index + 1);
    choice.calls[index] = {cat("call_", random_hex(24)), delta.name, ""};
    entry["id"] = choice.calls[index].id;
    entry["type"] = "function";
    function["name"] = delta.name;
  }
  choice.calls[index].arguments += delta.arguments;
  function["arguments"] = delta.arguments;
  entry["function"] = std::move(function);
  out["tool_calls"].push_back(std::move(entry));
}

void ChatAnswer::add_logprobs(Choice& choice, const llm::Event& event) {
  if (!head_.request.params.logprobs) return;
  for (const llm::PositionLogprobs& position : event.logprobs)
    choice.logprobs.push_back(chat_logprob(head_.model->text().pipeline.tokenizer(), position,
                                           *head_.request.params.logprobs, head_.request.tokens_as_ids));
}

const char* ChatAnswer::finish_of(const Choice& choice) const {
  bool called = !choice.calls.empty() && choice.last.finish == llm::FinishReason::kStop;
  return called ? "tool_calls" : finish_word(choice.last.finish);
}

void ChatAnswer::send_chunk(size_t index, ordered_json choice, ordered_json extra) {
  ordered_json chunk = head_json(head_, "chat.completion.chunk");
  chunk["modality"] = "text";
  ordered_json numbered = {{"index", index}};
  numbered.update(choice);
  chunk["choices"] = ordered_json::array({std::move(numbered)});
  if (!extra.is_null()) chunk.update(extra);
  if (head_.request.continuous_usage) chunk["usage"] = usage_json(usage());
  stream_.send(chunk);
}

void ChatAnswer::send_delta(Choice& choice, size_t index, ordered_json delta) {
  ordered_json entry = {{"delta", std::move(delta)}};
  if (!choice.logprobs.empty())
    entry["logprobs"] = {{"content", std::exchange(choice.logprobs, ordered_json::array())}};
  if (!choice.tokens.empty()) entry["token_ids"] = std::exchange(choice.tokens, {});
  send_chunk(index, std::move(entry), nullptr);
}

void ChatAnswer::send_finish(Choice& choice, size_t index) {
  // Tokens without text of their own, such as the start of a stop string, must not lose their numbers.
  if (!choice.logprobs.empty() || !choice.tokens.empty()) send_delta(choice, index, {{"content", ""}});
  ordered_json entry = {{"delta", ordered_json::object()}, {"finish_reason", finish_of(choice)}};
  if (ordered_json reason = stop_reason_json(choice.last); !reason.is_null()) entry["stop_reason"] = reason;
  send_chunk(index, std::move(entry), nullptr);
}

void ChatAnswer::on_all_finished() {
  if (head_.request.stream) {
    if (head_.request.include_usage) {
      ordered_json chunk = head_json(head_, "chat.completion.chunk");
      chunk["choices"] = ordered_json::array();
      chunk["usage"] = usage_json(usage());
      stream_.send(chunk);
    }
    return stream_.done();
  }
  ordered_json out = head_json(head_, "chat.completion");
  out["choices"] = ordered_json::array();
  for (size_t i = 0; i < choices_.size(); ++i) out["choices"].push_back(choice_json(choices_[i], i));
  out["service_tier"] = nullptr;
  out["system_fingerprint"] = nullptr;
  out["usage"] = usage_json(usage());
  if (head_.request.params.prompt_logprobs) out["prompt_logprobs"] = choices_[0].prompt_logprobs;
  if (head_.request.return_token_ids) out["prompt_token_ids"] = options_.prompt_tokens;
  if (head_.request.return_prompt_text) out["prompt_text"] = options_.prompt_text;
  out["metrics"] = head_.request.stage_metrics ? ordered_json::object() : ordered_json();
  head_.reply->send(json_response(out));
}

ordered_json ChatAnswer::choice_json(Choice& choice, size_t index) const {
  ordered_json out = {{"index", index}, {"message", message_json(choice)}};
  out["logprobs"] =
      head_.request.params.logprobs ? ordered_json{{"content", std::move(choice.logprobs)}} : ordered_json();
  out["finish_reason"] = finish_of(choice);
  out["stop_reason"] = stop_reason_json(choice.last);
  if (head_.request.return_token_ids) out["token_ids"] = choice.tokens;
  return out;
}

ordered_json ChatAnswer::message_json(const Choice& choice) const {
  ordered_json out = {{"role", "assistant"}};
  out["content"] =
      choice.content.empty() && !choice.calls.empty() ? ordered_json() : ordered_json(choice.content);
  if (!choice.reasoning.empty()) out["reasoning"] = choice.reasoning;
  for (const ToolCall& call : choice.calls)
    out["tool_calls"].push_back({{"id", call.id},
                                 {"type", "function"},
                                 {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  return out;
}

llm::Usage ChatAnswer::usage() const {
  llm::Usage sum;
  for (size_t i = 0; i < choices_.size(); ++i) sum = add_usage(sum, choices_[i].last.usage, i == 0);
  sum.prompt_tokens = static_cast<int32_t>(options_.prompt_tokens.size());
  return sum;
}

void ChatAnswer::on_failure(const ApiError& error) { stream_.fail(error); }

}  // namespace quaver::server
