#include "nn/support.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "numerics/half.h"

namespace quaver::nn {

at::Tensor randn(std::vector<int64_t> shape, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal;
  at::Tensor x = at::empty(shape);
  std::generate_n(x.mutable_data_ptr<float>(), x.numel(), [&] { return normal(engine); });
  return x;
}

namespace {

Buffer stored_scales(const std::vector<float>& scales, ScaleCodec codec) {
  if (codec == ScaleCodec::kF32) return Buffer::copy_of(scales);
  std::vector<uint16_t> halves;
  for (float scale : scales)
    halves.push_back(codec == ScaleCodec::kF16 ? float_to_f16(scale) : float_to_bf16(scale));
  return Buffer::copy_of(halves);
}

}  // namespace

QuantWeight random_quant_weight(int64_t out, int64_t in, const QuantOptions& options, uint64_t seed) {
  std::mt19937_64 engine(seed);
  QuantWeight weight;
  weight.element = integer_element(options.bits);
  weight.shape = {out, in};
  weight.group = {1, options.group};
  std::vector<uint8_t> codes(static_cast<size_t>(out * weight.row_bytes()), 0);
  for (int64_t row = 0; row < out; ++row)  // bits past the last code stay 0
    for (int64_t bit = 0; bit < in * options.bits; ++bit)
      codes[static_cast<size_t>(row * weight.row_bytes() + bit / 8)] |=
          static_cast<uint8_t>((engine() & 1u) << (bit % 8));
  weight.codes = Buffer::copy_of(codes);
  auto count = static_cast<size_t>(out * weight.num_group_cols());
  std::vector<float> scales(count);
  for (float& scale : scales)
    scale = (static_cast<float>(engine() % 1000) + 1) * 1e-4f * (engine() % 4 == 0 ? -1.0f : 1.0f);
  weight.scale.codec = options.codec;
  weight.scale.data = stored_scales(scales, options.codec);
  if (options.zeros) {
    std::vector<uint8_t> zeros(count);
    for (uint8_t& zero : zeros) zero = static_cast<uint8_t>(engine() % (1u << options.bits));
    weight.offset = IntegerZeros{Buffer::copy_of(zeros)};
  }
  if (options.permuted) {
    weight.permutation.resize(static_cast<size_t>(in));
    std::iota(weight.permutation.begin(), weight.permutation.end(), 0);
    std::shuffle(weight.permutation.begin(), weight.permutation.end(), engine);
  }
  return weight;
}

testing::AssertionResult near(const at::Tensor& got, const at::Tensor& want, double width, double epsilon) {
  if (got.sizes() != want.sizes())
    return testing::AssertionFailure()
           << "shapes " << cat(got.sizes().vec()) << " and " << cat(want.sizes().vec());
  at::Tensor reference = want.to(at::kDouble);
  double rms = std::sqrt(reference.pow(2).mean().item<double>());
  at::Tensor bound = (reference.abs() + rms) * (8 * epsilon * std::sqrt(width));
  double ratio = ((got.to(at::kDouble) - reference).abs() / bound).max().item<double>();
  if (ratio <= 1) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "error is " << ratio << " times its bound";
}

}  // namespace quaver::nn
