// The CUDA kernels of diffusion transformers' small operations against ATen's expressions in float64.
#include <ATen/TensorOperators.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <utility>

#include "nn/gelu_beside.h"
#include "nn/joined_heads.h"
#include "nn/kernel_path.h"
#include "nn/modulation.h"
#include "nn/support.h"

namespace quaver::nn {
namespace {

const at::Device kCuda(at::kCUDA, 0);
constexpr double kNormEpsilon = 1e-6;

struct HalfType {
  at::ScalarType dtype;
  double epsilon;
};
constexpr HalfType kTypes[] = {{at::kFloat, 0x1p-24}, {at::kHalf, 0x1p-11}, {at::kBFloat16, 0x1p-8}};

at::Tensor on_cuda(std::vector<int64_t> shape, uint64_t seed, at::ScalarType dtype) {
  return randn(std::move(shape), seed).to(kCuda, dtype);
}

TEST(ModulationCuda, NormsAndGatesRows) {
  c10::InferenceMode no_gradients;
  for (const auto& [dtype, epsilon] : kTypes)
    for (int64_t width : {64, 256, 3072, 32768}) {
      // As a layer of modulation gives them: parts of one row per batch entry.
      const std::vector<at::Tensor> m = on_cuda({2, 3 * width}, 1, dtype).chunk(3, -1);
      const at::Tensor x = on_cuda({2, 5, width}, 2, dtype) + 3, y = on_cuda({2, 5, width}, 3, dtype);
      auto wide = [](const at::Tensor& t) { return t.to(at::kDouble); };
      EXPECT_TRUE(near(modulated_norm(x, m[0], m[1], kNormEpsilon),
                       modulated_norm(wide(x), wide(m[0]), wide(m[1]), kNormEpsilon), 9, epsilon))
          << dtype << " " << width;
      EXPECT_TRUE(near(gated_sum(x, m[2], y), gated_sum(wide(x), wide(m[2]), wide(y)), 1, epsilon))
          << dtype << " " << width;
    }
}

TEST(ModulationCuda, TakesViewsAndOddWidths) {
  c10::InferenceMode no_gradients;
  const at::Tensor all = on_cuda({2, 9, 64}, 1, at::kBFloat16), x = all.narrow(1, 2, 5);
  const at::Tensor shift = on_cuda({2, 64}, 2, at::kBFloat16), scale = on_cuda({2, 64}, 3, at::kBFloat16);
  EXPECT_TRUE(modulated_norm(x, shift, scale, kNormEpsilon)
                  .equal(modulated_norm(x.contiguous(), shift, scale, kNormEpsilon)));
  const at::Tensor odd = on_cuda({1, 3, 65}, 4, at::kFloat), row = on_cuda({1, 65}, 5, at::kFloat);
  EXPECT_TRUE(
      near(modulated_norm(odd, row, row, kNormEpsilon),
           modulated_norm(odd.to(at::kDouble), row.to(at::kDouble), row.to(at::kDouble), kNormEpsilon), 4));
}

// Pairs may stand elsewhere, so that scores are compared.
at::Tensor dot_products(const at::Tensor& q, const at::Tensor& k) {
  return q.transpose(1, 2).matmul(k.transpose(1, 2).transpose(2, 3));
}

TEST(JoinedHeadsCuda, GiveTheScoresOfTheExpressions) {
  c10::InferenceMode no_gradients;
  constexpr int64_t kTextTokens = 3, kImageTokens = 6, kHeadCount = 4, kEntries = 2;
  for (const auto& [dtype, epsilon] : kTypes)
    for (int64_t dim : {16, 64, 128, 256}) {
      auto stream = [&](int64_t tokens, uint64_t seed) {  // a part of a wider row, as fused layers give it
        return on_cuda({kEntries, tokens, 3, kHeadCount, dim}, seed, dtype).select(2, 1);
      };
      const at::Tensor angles = randn({kTextTokens + kImageTokens, dim / 2}, 5).to(kCuda);
      const RopeAngles rope{angles.cos(), angles.sin()};
      const RopeAngles wide_rope{rope.cos.to(at::kDouble), rope.sin.to(at::kDouble)};
      const at::Tensor weight = on_cuda({dim}, 6, dtype);
      const RmsNorm norm(weight, kNormEpsilon, NormFlavour::kCastThenScale),
          wide_norm(weight.to(at::kDouble), kNormEpsilon, NormFlavour::kCastThenScale);
      const at::Tensor q[] = {stream(kTextTokens, 1), stream(kImageTokens, 2)},
                       k[] = {stream(kTextTokens, 3), stream(kImageTokens, 4)};
      auto fused = [&](const at::Tensor* x) { return joined_heads({{x[0], &norm}, {x[1], &norm}}, rope); };
      auto wide = [&](const at::Tensor* x) {
        return joined_heads({{x[0].to(at::kDouble), &wide_norm}, {x[1].to(at::kDouble), &wide_norm}},
                            wide_rope);
      };
      EXPECT_TRUE(near(dot_products(fused(q).to(at::kDouble), fused(k).to(at::kDouble)),
                       dot_products(wide(q), wide(k)), static_cast<double>(dim), epsilon))
          << dtype << " " << dim;
    }
}

TEST(GeluBesideCuda, IsThatOfFloat64) {
  c10::InferenceMode no_gradients;
  for (const auto& [dtype, epsilon] : kTypes)
    for (auto [n, m] : {std::pair<int64_t, int64_t>{8, 16}, {64, 1024}, {3072, 12288}, {7, 9}}) {
      const at::Tensor x = on_cuda({2, 5, n}, 1, dtype), inner = on_cuda({2, 5, m}, 2, dtype) * 3;
      EXPECT_TRUE(
          near(gelu_beside(x, inner), gelu_beside(x.to(at::kDouble), inner.to(at::kDouble)), 1, epsilon))
          << dtype << " " << n;
    }
}

}  // namespace
}  // namespace quaver::nn
