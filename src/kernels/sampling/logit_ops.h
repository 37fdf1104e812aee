// Passes over a row of logits, per instruction set; for sampling.cc alone.
#pragma once

#include <cstdint>

namespace quaver::kernels {

struct LogitOps {
  float (*max)(const float* x, int64_t n);
  bool (*acceptable)(const float* x, int64_t n);  // no NaN, no +infinity, and something finite
  int64_t (*find_equal)(const float* x, int64_t n, float value);  // the first; n when there is none
  int64_t (*count_above)(const float* x, int64_t n, float value);
  // Indices of x >= threshold, in order; returns how many. `out` has room for n.
  int64_t (*collect)(const float* x, int64_t n, float threshold, int32_t* out);
  double (*sum_exp)(const float* x, int64_t n, float max,
                    float inverse_temperature);  // sum exp((x - max) / t)
};

extern const LogitOps kLogitOpsScalar;
extern const LogitOps kLogitOpsAvx2;
extern const LogitOps kLogitOpsAvx512;

}  // namespace quaver::kernels
