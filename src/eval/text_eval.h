// How well a language model predicts a text, and how far its predictions are from a reference model's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/progress.h"
#include "models/llm/causal_lm.h"

namespace quaver::eval {

// A mean over tokens with its standard error, which treats the chunks (not the tokens, which depend on each
// other) as the independent draws.
struct Estimate {
  double mean = 0, standard_error = 0;
};

struct TextEvaluation {
  int64_t num_tokens = 0, chunk_length = 0;
  double perplexity = 0, perplexity_standard_error = 0;
  Estimate negative_log_likelihood;  // nats per token; the first token of a chunk is not scored
  // Against the reference, all positions; absent without one.
  std::optional<Estimate> kl;              // KL(reference || model), nats per token
  std::optional<double> kl_p99;            // 99th percentile over tokens
  std::optional<Estimate> top1_agreement;  // share of positions where both have the same most likely token
  std::optional<double> reference_perplexity;
};

// Scores `tokens`, int64 [tokens] on the models' device, cut into chunks of `chunk_length` that do not
// overlap (a shorter rest is left out). Both models must have the same vocabulary size
// (Error(kInvalidInput)). Error(kNonFinite) when a logit is not finite.
TextEvaluation evaluate_text(const models::CausalLm& model, const models::CausalLm* reference,
                             const at::Tensor& tokens, int64_t chunk_length, ProgressSink& progress);

json to_json(const TextEvaluation& evaluation);

}  // namespace quaver::eval
