// Detokenizes, looks for the end, and cuts the text there.
#include "llm/output.h"

#include <algorithm>

namespace quaver::llm {
namespace {

bool contains(std::span<const int32_t> tokens, int32_t token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

}  // namespace

Output::Output(const Tokenizer& tokenizer, const SamplingParams& params, std::span<const int32_t> end_tokens)
    : tokenizer_(tokenizer),
      params_(params),
      end_tokens_(end_tokens.begin(), end_tokens.end()),
      detokenizer_(tokenizer, params.skip_special_tokens),
      stops_(params.stop, params.include_stop_str_in_output) {}

std::string Output::text_of(int32_t token) {
  return token < tokenizer_.vocab_size() ? detokenizer_.push(token) : std::string();
}

Output::Step Output::push(int32_t token) {
  Step step;
  ++count_;
  bool own_end = !params_.ignore_eos && contains(end_tokens_, token);
  bool stop_token = !own_end && contains(params_.stop_token_ids, token);
  if (own_end || stop_token) {
    if (stop_token) step.stop_token = token;
    if (params_.include_stop_str_in_output) match(text_of(token), step);
    end(FinishReason::kStop, step);
    return step;
  }
  match(text_of(token), step);
  if (count_ >= params_.max_tokens) end(FinishReason::kLength, step);
  return step;
}

void Output::match(std::string_view piece, Step& step) {
  if (step.finish != FinishReason::kNone) return;
  StopStrings::Found found = stops_.push(piece, count_ > params_.min_tokens);
  step.text += found.text;
  if (found.match < 0) return;
  step.finish = FinishReason::kStop;
  step.stop_text = params_.stop[static_cast<size_t>(found.match)];
}

void Output::end(FinishReason reason, Step& step) {
  match(detokenizer_.finish(), step);  // an unfinished character may complete a stop string, too
  if (step.finish != FinishReason::kNone) return;
  step.text += stops_.flush();
  step.finish = reason;
}

std::string Output::flush() {
  Step step;
  match(detokenizer_.finish(), step);
  return step.finish == FinishReason::kNone ? step.text + stops_.flush() : step.text;
}

}  // namespace quaver::llm
