#include "server/completion_answer.h"

#include <utility>

namespace quaver::server {

CompletionAnswer::CompletionAnswer(AnswerHead head, CompletionAnswerOptions options)
    : head_(std::move(head)), options_(std::move(options)), stream_(head_.reply) {
  const size_t count = options_.prompts.size() * static_cast<size_t>(head_.request.n);
  for (size_t i = 0; i < count; ++i)
    choices_.push_back({.logprobs = CompletionLogprobs(head_.model->text().pipeline.tokenizer(),
                                                       head_.request.params.logprobs.value_or(0),
                                                       head_.request.tokens_as_ids)});
}

const CompletionPrompt& CompletionAnswer::prompt_of(size_t index) const {
  return options_.prompts[index / static_cast<size_t>(head_.request.n)];
}

void CompletionAnswer::on_event(size_t index, llm::Event event) {
  Choice& choice = choices_[index];
  if (!choice.begun) begin(choice, index, event);
  if (options_.prompt_only) {
    event.text.clear();
    event.tokens.clear();
    event.logprobs.clear();
    event.usage.completion_tokens = 0;
    event.stop_text.clear();
    event.stop_token.reset();
    if (event.finish == llm::FinishReason::kStop) event.finish = llm::FinishReason::kLength;
  }
  if (head_.request.params.logprobs)
    for (const llm::PositionLogprobs& position : event.logprobs) choice.logprobs.add(position);
  if (head_.request.return_token_ids)
    choice.tokens.insert(choice.tokens.end(), event.tokens.begin(), event.tokens.end());
  choice.text += event.text;
  choice.last = std::move(event);
  if (!head_.request.stream) return;
  if (!choice.text.empty()) send_piece(choice, index, false);
  if (choice.last.finish != llm::FinishReason::kNone) send_piece(choice, index, true);
}

void CompletionAnswer::begin(Choice& choice, size_t index, const llm::Event& event) {
  choice.begun = true;
  const Tokenizer& tokenizer = head_.model->text().pipeline.tokenizer();
  if (options_.prompt_logprobs)
    choice.prompt_logprobs = prompt_logprobs_json(tokenizer, event.prompt_logprobs);
  if (!options_.echo) return;
  choice.text += prompt_of(index).text;
  if (!head_.request.params.logprobs) return;
  const std::vector<int32_t>& prompt = prompt_of(index).tokens;
  for (size_t i = 0; i < prompt.size(); ++i) {
    bool known = i < event.prompt_logprobs.size() && !event.prompt_logprobs[i].empty();
    known ? choice.logprobs.add(event.prompt_logprobs[i]) : choice.logprobs.add_bare(prompt[i]);
  }
}

void CompletionAnswer::send_piece(Choice& choice, size_t index, bool finish) {
  // What is left of the numbers goes out before the finish, which carries no text.
  if (finish && (!choice.logprobs.empty() || !choice.tokens.empty())) send_piece(choice, index, false);
  ordered_json entry = choice_json(choice, index, std::exchange(choice.text, ""));
  if (!finish) {
    entry["finish_reason"] = nullptr;
    entry["stop_reason"] = nullptr;
  }
  ordered_json chunk = head_json(head_, "text_completion");
  chunk["choices"] = ordered_json::array({std::move(entry)});
  if (head_.request.continuous_usage) chunk["usage"] = usage_json(usage());
  stream_.send(chunk);
}

ordered_json CompletionAnswer::choice_json(Choice& choice, size_t index, std::string text) const {
  ordered_json out = {{"index", index}, {"text", std::move(text)}};
  out["logprobs"] = choice.logprobs.empty() ? ordered_json() : choice.logprobs.take();
  out["finish_reason"] = finish_word(choice.last.finish);
  out["stop_reason"] = stop_reason_json(choice.last);
  if (options_.prompt_logprobs) out["prompt_logprobs"] = choice.prompt_logprobs;
  if (head_.request.return_token_ids) {
    out["token_ids"] = std::exchange(choice.tokens, {});
    out["prompt_token_ids"] = prompt_of(index).tokens;
  }
  if (head_.request.return_prompt_text) out["prompt_text"] = prompt_of(index).text;
  return out;
}

void CompletionAnswer::on_all_finished() {
  if (head_.request.stream) {
    if (head_.request.include_usage) {
      ordered_json chunk = head_json(head_, "text_completion");
      chunk["choices"] = ordered_json::array();
      chunk["usage"] = usage_json(usage());
      stream_.send(chunk);
    }
    return stream_.done();
  }
  ordered_json out = head_json(head_, "text_completion");
  out["choices"] = ordered_json::array();
  for (size_t i = 0; i < choices_.size(); ++i)
    out["choices"].push_back(choice_json(choices_[i], i, std::move(choices_[i].text)));
  out["service_tier"] = nullptr;
  out["system_fingerprint"] = nullptr;
  out["usage"] = usage_json(usage());
  head_.reply->send(json_response(out));
}

llm::Usage CompletionAnswer::usage() const {
  llm::Usage sum;
  const size_t n = static_cast<size_t>(head_.request.n);
  for (size_t i = 0; i < choices_.size(); ++i) sum = add_usage(sum, choices_[i].last.usage, i % n == 0);
  sum.prompt_tokens = 0;
  for (const CompletionPrompt& prompt : options_.prompts)
    sum.prompt_tokens += static_cast<int32_t>(prompt.tokens.size());
  return sum;
}

void CompletionAnswer::on_failure(const ApiError& error) { stream_.fail(error); }

}  // namespace quaver::server
