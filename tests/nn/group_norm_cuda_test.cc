// The CUDA kernel of group normalization against ATen's in float64.
#include <ATen/TensorOperators.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/silu.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "nn/group_norm.h"
#include "nn/memory_checkpoint.h"
#include "nn/support.h"

namespace quaver::nn {
namespace {

struct Picture {
  int64_t batch, channels, groups, rows, cols;
};
// Groups of one channel to all, pixels fewer than threads to many runs.
constexpr Picture kPictures[] = {{2, 64, 4, 3, 5},     {1, 8, 8, 1, 1},     {2, 96, 32, 9, 7},
                                 {1, 128, 32, 65, 64}, {1, 2048, 32, 8, 9}, {1, 16, 1, 512, 40}};

TEST(GroupNormCuda, IsThatOfFloat64) {
  c10::InferenceMode no_gradients;
  const at::Device gpu(at::kCUDA, 0);
  for (const auto& [batch, channels, groups, rows, cols] : kPictures)
    for (at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
      MemoryCheckpoint checkpoint;
      checkpoint.add("norm.weight", randn({channels}, 2));
      checkpoint.add("norm.bias", randn({channels}, 3));
      WeightSource source(checkpoint, {.compute_dtype = dtype, .device = gpu});
      const GroupNorm norm(source, "norm", channels, groups, 1e-6);
      // Means far from 0: sums of squares about 0 would lose the variance.
      const at::Tensor x = (randn({batch, channels, rows, cols}, 1) + 40).to(gpu, dtype);
      const at::Tensor want =
          at::group_norm(x.to(at::kDouble), groups, randn({channels}, 2).to(gpu, dtype).to(at::kDouble),
                         randn({channels}, 3).to(gpu, dtype).to(at::kDouble), 1e-6);
      const double epsilon = dtype == at::kFloat ? 0x1p-18 : dtype == at::kHalf ? 0x1p-11 : 0x1p-8;
      for (const at::Tensor& laid_out : {x, x.contiguous(at::MemoryFormat::ChannelsLast)}) {
        EXPECT_TRUE(near(norm.forward(laid_out), want, 1, epsilon)) << channels << " " << dtype;
        EXPECT_TRUE(near(norm.forward_silu(laid_out), at::silu(want), 1, epsilon))
            << channels << " " << dtype;
      }
    }
}

}  // namespace
}  // namespace quaver::nn
