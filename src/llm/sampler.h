// Picks one sequence's next token from its row of logits.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "llm/request.h"

namespace quaver::llm {

// Of one position, from raw logits: `token` first, then the `count` most likely (-1 = all).
// Precondition: the logits are as kernels::check_logits wants them.
PositionLogprobs position_logprobs(std::span<const float> logits, int32_t token, int32_t count);

// True when the row can be sampled from: no NaN, no +infinity, something finite.
bool usable_logits(std::span<const float> logits);

// The sampling state of one sequence. What it picks depends on its parameters, its seed, the number of tokens
// it has picked and the logits alone, so neither neighbours in the batch nor preemption change it. Not thread
// safe; different samplers may work at the same time.
//
// The order of operations is vLLM's: allowed_token_ids, min_tokens, logit_bias, penalties, temperature,
// filters. Reported log-probabilities are those of the raw logits. Temperature 0 takes the lowest token among
// the largest.
class Sampler {
 public:
  struct Setup {
    const SamplingParams* params = nullptr;  // borrowed; validated
    std::span<const int32_t> prompt;
    std::span<const int32_t> end_tokens;  // the model's own; not picked before min_tokens
    uint64_t seed = 0;
  };
  struct Pick {
    int32_t token = 0;
    PositionLogprobs logprobs;  // empty unless asked for
  };

  explicit Sampler(const Setup& setup);

  // Throws Error(kNonFinite) when the logits are not usable, Error(kInvalidInput) when the parameters forbid
  // every token.
  Pick pick(std::span<const float> logits);

 private:
  bool adjusts() const;
  std::span<const float> adjusted(std::span<const float> logits);
  void apply_penalties();
  void apply_masks();
  int32_t choose(std::span<const float> logits) const;

  const SamplingParams& params_;
  std::vector<int32_t> end_tokens_;  // with stop_token_ids
  uint64_t seed_;
  int32_t picked_ = 0;
  std::unordered_map<int32_t, int32_t> counts_;  // in the output; 0 for tokens of the prompt alone
  std::vector<float> row_;
};

}  // namespace quaver::llm
