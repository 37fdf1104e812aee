// What a text request asks for and what comes back: the only types that cross between the engine and the
// rest.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace quaver::llm {

// Defaults and ranges: shared by every route; `validate_sampling` is the one place that checks them.
struct SamplingParams {
  float temperature = 1.0f;  // 0 = greedy
  float top_p = 1.0f;
  int32_t top_k = 0;  // 0 or -1 = off
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  float frequency_penalty = 0.0f, presence_penalty = 0.0f;
  std::optional<int64_t> seed;
  int32_t max_tokens = 16;
  int32_t min_tokens = 0;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  bool include_stop_str_in_output = false;
  bool ignore_eos = false;
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::vector<int32_t> allowed_token_ids;  // empty = all
  std::optional<int32_t> logprobs;         // how many alternatives per token; -1 = all
  std::optional<int32_t> prompt_logprobs;
  bool skip_special_tokens = true;
};

// Throws Error(kInvalidInput) whose field is the parameter's name.
void validate_sampling(const SamplingParams& params, int32_t vocab_size);

struct Request {
  std::string id;  // unique among live requests
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  std::string cache_salt;  // prefixes are shared only between equal salts
};

struct Logprob {
  int32_t token = 0;
  float logprob = 0;
  int32_t rank = 0;  // 1 = most likely
};

// Of one position: the token itself first, then the alternatives asked for, most likely first.
using PositionLogprobs = std::vector<Logprob>;

enum class FinishReason { kNone, kStop, kLength, kAbort, kError };

struct Usage {
  int32_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
};

// One step's news of one request. The last event of a request has `finish` != kNone; nothing follows it.
struct Event {
  std::string request_id;
  std::vector<int32_t> tokens;                    // new token ids
  std::string text;                               // new text, whole characters only, stop strings already cut
  std::vector<PositionLogprobs> logprobs;         // one per new token, when asked for
  std::vector<PositionLogprobs> prompt_logprobs;  // in the first event, when asked for; [0] is empty
  FinishReason finish = FinishReason::kNone;
  std::string stop_text;              // the stop string that matched
  std::optional<int32_t> stop_token;  // the stop token that matched, when it was not the model's own EOS
  Usage usage;
  std::optional<Error> error;  // with finish kError
};

// Called on the engine's thread; must return fast and not throw.
using EventSink = std::function<void(Event)>;

}  // namespace quaver::llm
