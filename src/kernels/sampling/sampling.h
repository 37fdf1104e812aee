// From one row of logits to a token: argmax, log-softmax, top-k / top-p / min-p, drawing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/cpu_features.h"

namespace quaver::kernels {

// All functions read one row and are thread safe. Logits may be -infinity (a forbidden token) but neither NaN
// nor +infinity, unless said otherwise; check_logits tells.

// True when no logit is NaN or +infinity and at least one is finite.
bool check_logits(std::span<const float> logits, const CpuFeatures& cpu = cpu_features());

// The lowest index among the largest.
int32_t argmax(std::span<const float> logits, const CpuFeatures& cpu = cpu_features());

// log-softmax(logits)[i] = logits[i] - max - log_sum.
struct LogSumExp {
  float max = 0;
  double log_sum = 0;  // log(sum(exp(logit - max)))
  float log_probability(float logit) const {
    return static_cast<float>(static_cast<double>(logit) - max - log_sum);
  }
};
LogSumExp log_sum_exp(std::span<const float> logits, const CpuFeatures& cpu = cpu_features());

// How many logits are larger than this one, or as large and at a lower index, plus 1.
int32_t rank_of(std::span<const float> logits, int32_t token, const CpuFeatures& cpu = cpu_features());

// The `count` largest, largest first, ties by index.
std::vector<int32_t> top_tokens(std::span<const float> logits, int32_t count,
                                const CpuFeatures& cpu = cpu_features());

// Applied in this order: min_p, top_k, top_p.
struct SampleFilter {
  float temperature = 1.0f;  // above 0
  float min_p = 0.0f;        // keep tokens at least this times as likely as the most likely; 0 = all
  int32_t top_k = 0;         // keep the k most likely; 0 or less = all
  float top_p = 1.0f;        // keep the fewest most likely whose share of what is left reaches this
};

// Draws by inverse transform: the kept tokens in index order, `uniform` in [0, 1). Ties at a filter's edge
// are kept from the lowest index. At least one token is always kept.
int32_t sample(std::span<const float> logits, const SampleFilter& filter, double uniform,
               const CpuFeatures& cpu = cpu_features());

}  // namespace quaver::kernels
