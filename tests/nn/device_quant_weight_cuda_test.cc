// The CUDA kernels for integer weights against the ATen expressions on the same device.
#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "nn/device_quant_weight.h"
#include "nn/kernel_path.h"
#include "nn/support.h"

namespace quaver::nn {
namespace {

const at::Device kGpu(at::kCUDA, 0);

std::vector<QuantOptions> options_on_devices() {
  std::vector<QuantOptions> all;
  for (int bits = 2; bits <= 8; ++bits)
    for (bool zeros : {false, true})
      for (ScaleCodec codec : {ScaleCodec::kF16, ScaleCodec::kBF16, ScaleCodec::kF32})
        all.push_back(
            {.bits = bits, .group = 32, .zeros = zeros, .permuted = bits == 4 && zeros, .codec = codec});
  return all;
}

TEST(DeviceQuantWeightCuda, ExpandsToTheSameBits) {
  for (const QuantOptions& options : options_on_devices())
    for (int64_t in : {64, 72, 576}) {
      DeviceQuantWeight weight(random_quant_weight(24, in, options, 7), kGpu);
      for (at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
        at::Tensor by_kernel = weight.dense(dtype);
        AtenOnly reference;
        EXPECT_TRUE(by_kernel.equal(weight.dense(dtype))) << options.bits << " bits, " << in << " channels";
      }
    }
}

TEST(DeviceQuantWeightCuda, MultipliesAFewRows) {
  c10::InferenceMode no_gradients;
  int64_t direct = 0;
  for (const QuantOptions& options : options_on_devices())
    for (int64_t in : {64, 72, 576}) {
      DeviceQuantWeight weight(random_quant_weight(25, in, options, 7), kGpu);
      at::Tensor bias = randn({25}, 3).to(kGpu);
      for (int64_t m : {1, 2, 3, 8}) {
        at::Tensor x = randn({m, in}, 1).to(kGpu);
        std::optional<at::Tensor> y = weight.multiply(x, bias);
        if (!y) continue;
        ++direct;
        at::Tensor want =
            at::linear(x.to(at::kDouble), weight.dense(at::kFloat).to(at::kDouble), bias.to(at::kDouble));
        EXPECT_TRUE(near(*y, want, static_cast<double>(in))) << options.bits << " bits, " << m << " rows";
        at::Tensor half = *weight.multiply(x.to(at::kBFloat16), bias.to(at::kBFloat16));
        at::Tensor rounded =
            at::linear(x.to(at::kBFloat16).to(at::kDouble), weight.dense(at::kFloat).to(at::kDouble),
                       bias.to(at::kBFloat16).to(at::kDouble));
        EXPECT_TRUE(near(half, rounded, 1, 0x1p-9)) << options.bits << " bits, " << m << " rows, bf16";
      }
    }
  // All but activation order, and widths whose rows are not aligned: 4 bits with 72 channels are 36 bytes.
  EXPECT_GT(direct, 400);
  DeviceQuantWeight weight(random_quant_weight(24, 64, {}, 7), kGpu);
  EXPECT_FALSE(weight.multiply(randn({9, 64}, 1).to(kGpu), std::nullopt).has_value());
}

}  // namespace
}  // namespace quaver::nn
