// The ranges of sampling parameters, for every route.
#include "llm/request.h"

namespace quaver::llm {
namespace {

constexpr size_t kMaxStopStrings = 128;
constexpr size_t kMaxStopBytes = 4096;
constexpr float kMaxTemperature = 100, kMaxRepetition = 100;

template <class... Args>
void check(bool good, const char* field, const Args&... message) {
  if (!good) throw Error(ErrorKind::kInvalidInput, cat(field, " ", message...), field);
}

void check_range(float value, float low, float high, const char* field) {
  check(value >= low && value <= high, field, "must be between ", low, " and ", high, ", got ",
        value);  // NaN fails
}

void check_token(int32_t token, int32_t vocab_size, const char* field) {
  check(token >= 0 && token < vocab_size, field, "has token id ", token, ", outside the vocabulary of ",
        vocab_size);
}

void check_tokens(const std::vector<int32_t>& tokens, int32_t vocab_size, const char* field) {
  for (int32_t token : tokens) check_token(token, vocab_size, field);
}

void check_count(const std::optional<int32_t>& count, int32_t vocab_size, const char* field) {
  check(!count || (*count >= -1 && *count <= vocab_size), field,
        "must be between -1 (all) and the vocabulary of ", vocab_size, ", got ", count.value_or(0));
}

void check_lengths(const SamplingParams& params) {
  check(params.max_tokens >= 0, "max_tokens", "must be at least 1, got ", params.max_tokens);
  check(params.max_tokens > 0 || params.prompt_logprobs, "max_tokens",
        "must be at least 1, got 0 (0 only scores the prompt and needs prompt_logprobs)");
  check(params.min_tokens >= 0 && params.min_tokens <= params.max_tokens, "min_tokens",
        "must be between 0 and max_tokens (", params.max_tokens, "), got ", params.min_tokens);
}

void check_stop(const std::vector<std::string>& stop) {
  check(stop.size() <= kMaxStopStrings, "stop", "must have at most ", kMaxStopStrings, " strings, got ",
        stop.size());
  for (const std::string& text : stop) {
    check(!text.empty(), "stop", "must not contain an empty string");
    check(text.size() <= kMaxStopBytes, "stop", "must have strings of at most ", kMaxStopBytes,
          " bytes, got ", text.size());
  }
}

}  // namespace

void validate_sampling(const SamplingParams& params, int32_t vocab_size) {
  check_range(params.temperature, 0, kMaxTemperature, "temperature");
  check(params.top_p > 0 && params.top_p <= 1, "top_p", "must be above 0 and at most 1, got ", params.top_p);
  check(params.top_k >= -1, "top_k", "must be at least 1, or 0 or -1 to turn it off, got ", params.top_k);
  check_range(params.min_p, 0, 1, "min_p");
  check(params.repetition_penalty > 0 && params.repetition_penalty <= kMaxRepetition, "repetition_penalty",
        "must be above 0 and at most ", kMaxRepetition, ", got ", params.repetition_penalty);
  check_range(params.frequency_penalty, -2, 2, "frequency_penalty");
  check_range(params.presence_penalty, -2, 2, "presence_penalty");
  check_lengths(params);
  check_stop(params.stop);
  check_tokens(params.stop_token_ids, vocab_size, "stop_token_ids");
  check_tokens(params.allowed_token_ids, vocab_size, "allowed_token_ids");
  for (auto [token, bias] : params.logit_bias) {
    check_token(token, vocab_size, "logit_bias");
    check_range(bias, -100, 100, "logit_bias");
  }
  check_count(params.logprobs, vocab_size, "logprobs");
  check_count(params.prompt_logprobs, vocab_size, "prompt_logprobs");
}

}  // namespace quaver::llm
