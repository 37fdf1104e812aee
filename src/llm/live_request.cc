// Builds the parts of a live request.
#include "llm/live_request.h"

#include <utility>

namespace quaver::llm {
namespace {

Sequence make_sequence(Request& request) {
  Sequence sequence;
  sequence.prompt_length = static_cast<int32_t>(request.prompt.size());
  sequence.tokens = std::exchange(request.prompt, {});
  sequence.use_prefix_cache = !request.sampling.prompt_logprobs;
  sequence.cache_salt = request.cache_salt;
  return sequence;
}

Sampler::Setup sampler_setup(const Request& request, const Sequence& sequence,
                             const LiveRequest::Setup& setup) {
  auto seed = request.sampling.seed ? static_cast<uint64_t>(*request.sampling.seed) : setup.seed;
  return {&request.sampling, sequence.tokens, setup.end_tokens, seed};
}

}  // namespace

LiveRequest::LiveRequest(Request what, EventSink where, const Setup& setup)
    : request(std::move(what)),
      sink(std::move(where)),
      sequence(make_sequence(request)),
      sampler(sampler_setup(request, sequence, setup)),
      output(*setup.tokenizer, request.sampling, setup.end_tokens) {
  if (params().prompt_logprobs) prompt_logprobs.resize(static_cast<size_t>(sequence.prompt_length));
}

Usage LiveRequest::usage() const {
  return {sequence.prompt_length, sequence.output_length(), sequence.cached_tokens};
}

}  // namespace quaver::llm
