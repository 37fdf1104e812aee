// What the tests of bf16 kernels share.
#pragma once

#include "kernels/support.h"
#include "numerics/half.h"

namespace quaver::kernels {

inline std::vector<uint16_t> bf16_normals(int64_t n, uint64_t seed, float scale = 1.0f) {
  std::vector<uint16_t> values;
  for (float v : Random(seed).normals(n, scale)) values.push_back(float_to_bf16(v));
  return values;
}

// One rounding to bf16 (half a unit of 8 bits is at most 2^-8 of the value), of what fp32 got almost right.
inline double bf16_tolerance(double value) { return std::abs(value) * 0x1.01p-8 + 0x1p-126; }

}  // namespace quaver::kernels
