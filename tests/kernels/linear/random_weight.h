// Random weights of every kind that the linear table knows, with their exact values beside them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/linear/kernel.h"

namespace quaver::kernels {

// Scales or minima in memory.
struct Level {
  ScaleCodec codec = ScaleCodec::kF32;
  std::vector<std::byte> codes;
  std::vector<float> super;
  int64_t share = 1;
  bool divides = false;

  ScaleView view() const;
  float at(int64_t i) const;  // entry i, both levels
};

// A weight with everything that a WeightView borrows, its exact values, and the magnitude of the terms that
// each is a sum of.
struct Weight {
  LinearProblem problem;
  std::vector<std::byte> codes;
  Level scales, mins;
  std::vector<uint8_t> zeros;
  std::vector<int32_t> permutation;
  std::vector<float> multiplier;
  std::vector<double> dense, terms;

  WeightView view() const;
};

// Of what the second level of scales has one.
enum class Second { kNone, kGlobal, kDivisor, kRow, kTwoGroups, kThreeEntries };

struct Options {
  Element element = Element::kInt4;
  int64_t group = 128;
  bool zeros = false, permuted = false, exact = false;
  ScaleCodec codec = ScaleCodec::kF32;
  Second second = Second::kNone;
  bool mins = false;
  int64_t group_rows = 1;
  bool multiplier = false;
};

Weight plain_weight(int64_t n, int64_t k, DType dtype, uint64_t seed);
Weight quantized_weight(int64_t n, int64_t k, const Options& options, uint64_t seed);

}  // namespace quaver::kernels
