// Each small operation: its kernel agrees with its ATen body, and gradients go through the latter.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "nn/activation.h"
#include "nn/embedding.h"
#include "nn/kernel_path.h"
#include "nn/norm.h"
#include "nn/rope.h"
#include "nn/support.h"

namespace quaver::nn {
namespace {

// Runs `body` on `x` in bf16, forward and backward, by kernels and by ATen expressions, and compares outputs
// and gradients. `roundings` is how many times the expressions round where the kernel does once.
template <class Body>
void expect_bf16_paths_agree(Body body, at::Tensor x, double roundings) {
  x = x.to(at::kBFloat16);
  auto both = [&] {
    at::Tensor leaf = x.detach().clone().requires_grad_();
    at::Tensor y = body(leaf);
    y.backward(randn(y.sizes().vec(), 99).to(at::kBFloat16));
    return std::pair(y.detach(), leaf.grad());
  };
  auto [y, gradient] = both();
  AtenOnly reference;
  auto [expected, expected_gradient] = both();
  EXPECT_TRUE(near(y, expected, roundings, 0x1p-9));
  EXPECT_TRUE(near(gradient, expected_gradient, roundings, 0x1p-9));
}

// Runs `body` on both paths.
template <class Body>
void expect_paths_agree(Body body, double width) {
  c10::InferenceMode no_gradients;
  at::Tensor by_kernel = body();
  AtenOnly reference;
  EXPECT_TRUE(near(by_kernel, body(), width));
}

TEST(KernelPath, TakenOnlyWithoutGradients) {
  at::Tensor x = randn({2, 4}, 1), w = randn({2, 4}, 2).requires_grad_();
  EXPECT_TRUE(kernels_apply(x));
  EXPECT_FALSE(kernels_apply(x, {&w}));
  EXPECT_FALSE(kernels_apply(w));
  EXPECT_FALSE(kernels_apply(x.to(at::kBFloat16)));
  c10::InferenceMode no_gradients;
  EXPECT_TRUE(kernels_apply(x, {&w}));
  AtenOnly reference;
  EXPECT_FALSE(kernels_apply(x));
}

TEST(RmsNorm, KernelAgrees) {
  for (NormFlavour flavour :
       {NormFlavour::kCastThenScale, NormFlavour::kScaleThenCast, NormFlavour::kOnePlusWeight}) {
    RmsNorm norm(randn({72}, 1), 1e-3, flavour);
    expect_paths_agree([&] { return norm.forward(randn({5, 72}, 2)); }, 72);
    // Heads of a slice, as a norm on q and k sees them.
    expect_paths_agree([&] { return norm.forward(randn({5, 4, 144}, 3).narrow(2, 36, 72)); }, 72);
  }
}

// One element by hand, for each flavour and in the dtype whose rounding tells them apart.
TEST(RmsNorm, RoundsWhereTheFlavourSays) {
  at::Tensor x = at::tensor({1.0f, 2.0f}).to(at::kBFloat16).unsqueeze(0);
  at::Tensor weight = at::tensor({0.3f, 0.7f}).to(at::kBFloat16);
  float inverse = 1 / std::sqrt(2.5f);
  auto bf16 = [](float value) { return at::tensor({value}).to(at::kBFloat16).item<float>(); };
  at::Tensor first = RmsNorm(weight, 0, NormFlavour::kCastThenScale).forward(x);
  EXPECT_EQ(first[0][0].item<float>(), bf16(bf16(inverse) * weight[0].item<float>()));
  at::Tensor second = RmsNorm(weight, 0, NormFlavour::kOnePlusWeight).forward(x);
  EXPECT_EQ(second[0][0].item<float>(), bf16(inverse * (1 + weight[0].item<float>())));
  EXPECT_NE(bf16(inverse * weight[1].item<float>() * 2), bf16(bf16(inverse * 2) * weight[1].item<float>()));
  for (bool aten : {false, true}) {
    std::optional<AtenOnly> only;
    if (aten) only.emplace();
    at::Tensor third = RmsNorm(weight, 0, NormFlavour::kScaleThenCast).forward(x);
    EXPECT_EQ(third[0][1].item<float>(), bf16(inverse * 2 * weight[1].item<float>()));
  }
}

TEST(RmsNorm, Bf16KernelAgreesWithGradients) {
  for (NormFlavour flavour :
       {NormFlavour::kCastThenScale, NormFlavour::kScaleThenCast, NormFlavour::kOnePlusWeight}) {
    RmsNorm norm(randn({72}, 1).to(at::kBFloat16), 1e-3, flavour);
    expect_bf16_paths_agree([&](const at::Tensor& x) { return norm.forward(x); }, randn({5, 72}, 2), 4);
  }
}

TEST(Gated, Bf16KernelAgreesWithGradients) {
  at::Tensor up = randn({3, 40}, 2).to(at::kBFloat16);
  for (Activation activation : {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh}) {
    auto by_gate = [&](const at::Tensor& x) { return gated(activation, x, up); };
    auto by_up = [&](const at::Tensor& x) { return gated(activation, up, x); };
    expect_bf16_paths_agree(by_gate, randn({3, 40}, 1) * 3, 4);
    expect_bf16_paths_agree(by_up, randn({3, 40}, 1) * 3, 4);
  }
}

TEST(Rope, Bf16KernelAgreesWithGradients) {
  RopeTable table({.dim = 16, .theta = 100}, at::kCPU);
  at::Tensor positions = at::tensor({0, 7, 1, 300}, at::kLong);
  for (int64_t head_dim : {16, 24}) {
    auto body = [&](const at::Tensor& x) {
      return apply_rope(x.narrow(1, 1, 3), table.angles(positions, at::kBFloat16));
    };
    expect_bf16_paths_agree(body, randn({4, 5, head_dim}, 1), 4);
  }
}

TEST(Gated, KernelAgrees) {
  for (const Gating& gating : {Gating(Activation::kSilu), Gating(Activation::kGelu),
                               Gating(Activation::kGeluTanh), Gating(Activation::kClampedSilu, 1.7f, 1.5f)})
    expect_paths_agree([&] { return gated(gating, randn({3, 40}, 1) * 3, randn({3, 40}, 2) * 3); }, 1);
}

TEST(Gated, ClampedSiluIsAsDefined) {
  at::Tensor gate = at::tensor({-9.0f, 0.5f, 9.0f}), up = at::tensor({-9.0f, 0.5f, 9.0f});
  auto glu = [](double g) { return g / (1 + std::exp(-1.5 * g)); };
  for (bool aten : {false, true}) {
    std::optional<AtenOnly> only;
    if (aten) only.emplace();
    at::Tensor y = gated({Activation::kClampedSilu, 1.5f, 2.0f}, gate, up);
    EXPECT_NEAR(y[0].item<double>(), glu(-9) * (-2 + 1), 1e-9);
    EXPECT_NEAR(y[1].item<double>(), glu(0.5) * 1.5, 1e-6);
    EXPECT_NEAR(y[2].item<double>(), glu(2) * 3, 1e-6);
  }
}

TEST(Embedding, KernelAgreesAndWidens) {
  at::Tensor table = randn({10, 24}, 1), ids = at::tensor({3, 0, 9, 3}, at::kLong);
  for (at::ScalarType stored : {at::kFloat, at::kBFloat16, at::kHalf}) {
    at::Tensor rows = embedding(table.to(stored), ids, at::kFloat);
    EXPECT_TRUE(rows.equal(table.to(stored).to(at::kFloat).index_select(0, ids)));
    AtenOnly reference;
    EXPECT_TRUE(rows.equal(embedding(table.to(stored), ids, at::kFloat)));
  }
}

TEST(Rope, KernelAgrees) {
  RopeTable table({.dim = 16, .theta = 100}, at::kCPU);
  at::Tensor positions = at::tensor({0, 7, 1, 300}, at::kLong);
  for (int64_t head_dim : {16, 24})  // whole heads, and heads turned in part
    expect_paths_agree(
        [&] {
          return apply_rope(randn({4, 3, head_dim}, 1), table.angles(positions, at::kFloat));
        },
        1);
}

TEST(Rope, TurnsPairsOfHalves) {
  RopeTable table({.dim = 4, .theta = 100}, at::kCPU);  // frequencies 1 and 0.1
  at::Tensor x = at::tensor({1.0f, 0.0f, 0.0f, 1.0f}).view({1, 1, 4});
  at::Tensor y = apply_rope(x, table.angles(at::tensor({2}, at::kLong), at::kFloat)).flatten();
  EXPECT_NEAR(y[0].item<float>(), std::cos(2.0f), 1e-6);
  EXPECT_NEAR(y[2].item<float>(), std::sin(2.0f), 1e-6);
  EXPECT_NEAR(y[1].item<float>(), -std::sin(0.2f), 1e-6);
  EXPECT_NEAR(y[3].item<float>(), std::cos(0.2f), 1e-6);
}

// Pairs (0, 1) and (2, 3) turn, and land at (0, 2) and (1, 3).
TEST(Rope, TurnsNeighboursAndSortsThem) {
  RopeTable table({.dim = 4, .theta = 100}, at::kCPU);  // frequencies 1 and 0.1
  at::Tensor x = at::tensor({1.0f, 0.0f, 0.0f, 1.0f}).view({1, 1, 4});
  at::Tensor y = apply_interleaved_rope(x, table.angles(at::tensor({2}, at::kLong), at::kFloat)).flatten();
  EXPECT_NEAR(y[0].item<float>(), std::cos(2.0f), 1e-6);
  EXPECT_NEAR(y[2].item<float>(), std::sin(2.0f), 1e-6);
  EXPECT_NEAR(y[1].item<float>(), -std::sin(0.2f), 1e-6);
  EXPECT_NEAR(y[3].item<float>(), std::cos(0.2f), 1e-6);
}

TEST(Rope, CacheKeepsOneEntryPerTable) {
  RopeTable slow({.dim = 8, .theta = 1e6}, at::kCPU), fast({.dim = 8, .theta = 10}, at::kCPU);
  at::Tensor positions = at::arange(5, at::kLong);
  RopeCache cache;
  const RopeAngles first = cache.angles(slow, positions, at::kFloat);
  EXPECT_FALSE(first.cos.equal(cache.angles(fast, positions, at::kFloat).cos));
  EXPECT_TRUE(first.cos.is_same(cache.angles(slow, positions, at::kFloat).cos));
}

TEST(Ops, GradientsReachInputs) {
  at::Tensor x = randn({2, 1, 8}, 1).requires_grad_();
  RmsNorm norm(randn({8}, 2), 1e-5, NormFlavour::kCastThenScale);
  RopeTable table({.dim = 8}, at::kCPU);
  at::Tensor y = apply_rope(norm.forward(x), table.angles(at::tensor({1, 2}, at::kLong), at::kFloat));
  gated(Activation::kSilu, y, y).sum().backward();
  EXPECT_GT(x.grad().abs().min().item<float>(), 0);
}

}  // namespace
}  // namespace quaver::nn
