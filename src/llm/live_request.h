// Everything the engine keeps of one request while it lives.
#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "llm/output.h"
#include "llm/request.h"
#include "llm/sampler.h"
#include "llm/sequence.h"

namespace quaver::llm {

using Clock = std::chrono::steady_clock;

// Neither copied nor moved: its parts refer to `request`. The prompt lives in `sequence` alone.
struct LiveRequest {
  struct Setup {
    const Tokenizer* tokenizer = nullptr;  // borrowed
    std::span<const int32_t> end_tokens;
    uint64_t seed = 0;  // when the request has none
  };
  LiveRequest(Request what, EventSink where, const Setup& setup);
  LiveRequest(const LiveRequest&) = delete;
  LiveRequest& operator=(const LiveRequest&) = delete;

  const SamplingParams& params() const { return request.sampling; }
  Usage usage() const;

  Request request;
  EventSink sink;
  Sequence sequence;
  Sampler sampler;
  Output output;
  std::vector<PositionLogprobs> prompt_logprobs;  // by position; moved out with the first event
  Clock::time_point submitted = Clock::now(), last_token;
};

}  // namespace quaver::llm
