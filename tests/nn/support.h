// What the nn tests share: random tensors, random quantized weights, a derived comparison, checkpoints in
// memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/quant_weight.h"

namespace quaver::nn {

// Standard normal float32 values from a fixed seed.
at::Tensor randn(std::vector<int64_t> shape, uint64_t seed);

struct QuantOptions {
  int bits = 4;
  int64_t group = 32;
  bool zeros = false;
  bool permuted = false;
  ScaleCodec codec = ScaleCodec::kF16;
};
QuantWeight random_quant_weight(int64_t out, int64_t in, const QuantOptions& options, uint64_t seed);

// |got - want| <= epsilon * sqrt(width) * 8 * (rms(want) + |want|), everywhere; 8 covers a walk's tail and
// the few operations around a sum of `width` products.
testing::AssertionResult near(const at::Tensor& got, const at::Tensor& want, double width,
                              double epsilon = 0x1p-24);

// The error that `body` throws; kInternal "nothing was thrown" when it doesn't.
template <class Body>
Error thrown_by(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorKind::kInternal, "nothing was thrown"};
}

}  // namespace quaver::nn
