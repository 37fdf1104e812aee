// What the kernel tests share: instruction-set levels, random rows, derived tolerances.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/cpu_features.h"

namespace quaver::kernels {

// Every level that this processor can run, the scalar one first.
inline std::vector<CpuFeatures> cpu_levels() {
  const CpuFeatures& have = cpu_features();
  std::vector<CpuFeatures> levels = {{}};
  if (have.avx2) levels.push_back({.avx2 = true});
  if (have.avx512) levels.push_back({.avx2 = true, .avx512 = true});
  if (have.avx512_vnni) levels.push_back({.avx2 = true, .avx512 = true, .avx512_vnni = true});
  return levels;
}

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  float normal() { return static_cast<float>(normal_(engine_)); }
  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  std::vector<float> normals(int64_t n, float scale = 1.0f) {
    std::vector<float> values(static_cast<size_t>(n));
    for (float& v : values) v = normal() * scale;
    return values;
  }
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
  std::normal_distribution<double> normal_;
};

// Of a float32 sum of `terms` products whose magnitudes add up to `magnitude`: roundings behave like a random
// walk, and 8 covers its tail and the operations around the sum.
inline double sum_tolerance(double magnitude, int64_t terms) {
  constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
  return std::numeric_limits<float>::min() +
         magnitude * kEpsilon * (8 + std::sqrt(static_cast<double>(terms)));
}

}  // namespace quaver::kernels
