// The scalar reference of the passes over logits.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/sampling/logit_ops.h"

namespace quaver::kernels {
namespace {

float max_of(const float* x, int64_t n) { return *std::max_element(x, x + n); }

bool acceptable(const float* x, int64_t n) {
  bool bad = false, finite = false;
  for (int64_t i = 0; i < n; ++i) {
    bad |= std::isnan(x[i]) || x[i] == std::numeric_limits<float>::infinity();
    finite |= std::isfinite(x[i]);
  }
  return finite && !bad;
}

int64_t find_equal(const float* x, int64_t n, float value) { return std::find(x, x + n, value) - x; }

int64_t count_above(const float* x, int64_t n, float value) {
  return std::count_if(x, x + n, [value](float v) { return v > value; });
}

int64_t collect(const float* x, int64_t n, float threshold, int32_t* out) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i)
    if (x[i] >= threshold) out[count++] = static_cast<int32_t>(i);
  return count;
}

double sum_exp(const float* x, int64_t n, float max, float inverse_temperature) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += std::exp((static_cast<double>(x[i]) - max) * static_cast<double>(inverse_temperature));
  return sum;
}

}  // namespace

const LogitOps kLogitOpsScalar = {max_of, acceptable, find_equal, count_above, collect, sum_exp};

}  // namespace quaver::kernels
