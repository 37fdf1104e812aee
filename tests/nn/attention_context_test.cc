// Dense attention against an element-by-element reference: grouped heads, windows, caps, several
// sequences.
#include "nn/attention_context.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>

#include "nn/kernel_path.h"
#include "nn/support.h"

namespace quaver::nn {
namespace {

constexpr int64_t kHeads = 4, kKvHeads = 2, kHeadDim = 16;

struct Inputs {
  at::Tensor q, k, v;
};

Inputs random_inputs(int64_t tokens) {
  return {randn({tokens, kHeads, kHeadDim}, 1), randn({tokens, kKvHeads, kHeadDim}, 2),
          randn({tokens, kKvHeads, kHeadDim}, 3)};
}

// One sequence, in double precision.
at::Tensor attention_reference(const Inputs& in, const AttentionParams& params) {
  at::Tensor q = in.q.to(at::kDouble), k = in.k.to(at::kDouble), v = in.v.to(at::kDouble),
             y = at::zeros_like(q);
  for (int64_t i = 0; i < q.size(0); ++i)
    for (int64_t h = 0; h < kHeads; ++h) {
      int64_t kv = h / (kHeads / kKvHeads),
              first = params.window > 0 ? std::max<int64_t>(0, i - params.window + 1) : 0;
      double total = params.sinks.defined() ? std::exp(params.sinks[h].item<double>()) : 0;
      at::Tensor sum = at::zeros_like(q[0][0]);
      for (int64_t j = first; j <= i; ++j) {
        double score = (q[i][h] * k[j][kv]).sum().item<double>() * params.scale;
        if (params.softcap > 0) score = params.softcap * std::tanh(score / params.softcap);
        sum += v[j][kv] * std::exp(score);
        total += std::exp(score);
      }
      y[i][h].copy_(sum / total);
    }
  return y;
}

struct Case {
  std::string name;
  AttentionParams params;
};

class DenseAttentionTest : public testing::TestWithParam<Case> {};

TEST_P(DenseAttentionTest, BothBodiesMatch) {
  const AttentionParams& params = GetParam().params;
  std::vector<int64_t> lengths = {7, 1, 12};
  Inputs all = random_inputs(20);
  std::vector<at::Tensor> parts;
  int64_t start = 0;
  for (int64_t length : lengths) {
    auto part = [&](const at::Tensor& x) { return x.narrow(0, start, length); };
    parts.push_back(attention_reference({part(all.q), part(all.k), part(all.v)}, params));
    start += length;
  }
  at::Tensor want = at::cat(parts);
  DenseAttention attention(lengths);
  EXPECT_TRUE(near(attention.attend(0, all.q, all.k, all.v, params), want, kHeadDim)) << "kernel";
  AtenOnly aten;
  EXPECT_TRUE(near(attention.attend(0, all.q, all.k, all.v, params), want, kHeadDim)) << "ATen";
}

// bf16 with gradients: 200 positions, so that scores come in several pieces. Outputs against double
// precision, gradients against the ATen body's in float32 on the same numbers.
TEST_P(DenseAttentionTest, Bf16KernelsMatchWithGradients) {
  AttentionParams params = GetParam().params;
  Inputs rounded;
  for (auto [to, from] : {std::pair(&rounded.q, 1), {&rounded.k, 2}, {&rounded.v, 3}})
    *to = randn({200, from == 1 ? 96 : kKvHeads, kHeadDim}, static_cast<uint64_t>(from)).to(at::kBFloat16);
  at::Tensor upstream = randn({200, 96, kHeadDim}, 4).to(at::kBFloat16);
  auto run = [&](at::ScalarType dtype) {
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& x : {rounded.q, rounded.k, rounded.v})
      leaves.push_back(x.to(dtype, /*non_blocking=*/false, /*copy=*/true).requires_grad_());
    at::Tensor y = DenseAttention({200}).attend(0, leaves[0], leaves[1], leaves[2], params);
    y.backward(upstream.to(dtype));
    std::vector<at::Tensor> results = {y.detach().to(at::kFloat)};
    for (const at::Tensor& leaf : leaves) results.push_back(leaf.grad().to(at::kFloat));
    return results;
  };
  std::vector<at::Tensor> got = run(at::kBFloat16), want = run(at::kFloat);
  for (size_t i = 0; i < got.size(); ++i) {
    // Scores, weights and results are rounded, about four times along a path, each to 2^-9 at most.
    double error = ((got[i] - want[i]).norm() / want[i].norm()).item<double>();
    EXPECT_LT(error, 4 * 0x1p-9) << "output, dq, dk, dv: number " << i;
  }
}

TEST_P(DenseAttentionTest, EqualLengthsRunAsOneBatch) {
  AtenOnly aten;
  Inputs all = random_inputs(18);
  at::Tensor together = DenseAttention({9, 9}).attend(0, all.q, all.k, all.v, GetParam().params);
  auto alone = [&](int64_t start) {
    return DenseAttention({9}).attend(0, all.q.narrow(0, start, 9), all.k.narrow(0, start, 9),
                                      all.v.narrow(0, start, 9), GetParam().params);
  };
  EXPECT_TRUE(near(together, at::cat({alone(0), alone(9)}), kHeadDim));
}

TEST_P(DenseAttentionTest, Differentiable) {
  Inputs in = random_inputs(5);
  in.v.requires_grad_();
  DenseAttention({5}).attend(0, in.q, in.k, in.v, GetParam().params).sum().backward();
  // Weights of a query sum to 1, so the gradient of the sum over values totals one per query, head and
  // channel.
  EXPECT_NEAR(in.v.grad().sum().item<double>(), 5 * kHeads * kHeadDim, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Params, DenseAttentionTest,
                         testing::Values(Case{"plain", {.scale = 0.25f}},
                                         Case{"window", {.scale = 0.3f, .window = 4}},
                                         Case{"wide_window", {.scale = 0.3f, .window = 50}},
                                         Case{"softcap", {.scale = 1.0f, .softcap = 2.0f}},
                                         Case{"both", {.scale = 1.0f, .window = 3, .softcap = 1.5f}}),
                         [](const auto& param) { return param.param.name; });

// A sink of 20 leaves next to nothing, one of -20 changes next to nothing.
TEST(DenseAttention, SinksJoinTheSoftmax) {
  at::Tensor sinks = at::tensor({-20.0f, 0.5f, 2.0f, 20.0f});
  for (const AttentionParams& params : {AttentionParams{.scale = 0.25f, .sinks = sinks},
                                        AttentionParams{.scale = 0.3f, .window = 4, .sinks = sinks},
                                        AttentionParams{.scale = 1.0f, .softcap = 2.0f, .sinks = sinks}}) {
    Inputs in = random_inputs(13);
    at::Tensor want = attention_reference(in, params);
    DenseAttention attention({13});
    EXPECT_TRUE(near(attention.attend(0, in.q, in.k, in.v, params), want, kHeadDim)) << "kernel";
    at::Tensor halves =
        attention.attend(0, in.q.to(at::kBFloat16), in.k.to(at::kBFloat16), in.v.to(at::kBFloat16), params);
    EXPECT_LT(((halves.to(at::kDouble) - want).norm() / want.norm()).item<double>(), 8 * 0x1p-9) << "bf16";
    AtenOnly aten;
    EXPECT_TRUE(near(attention.attend(0, in.q, in.k, in.v, params), want, kHeadDim)) << "ATen";
  }
}

// The slope along a random direction of q, k, v and the sinks, by autograd and by a central difference.
TEST(DenseAttention, SinksHaveGradients) {
  Inputs in = random_inputs(6);
  at::Tensor sinks = randn({kHeads}, 4);
  std::vector<at::Tensor> leaves = {in.q, in.k, in.v, sinks}, directions;
  for (at::Tensor& leaf : leaves) {
    directions.push_back(randn(leaf.sizes().vec(), 5 + directions.size()).to(at::kDouble));
    leaf = leaf.to(at::kDouble).requires_grad_();
  }
  auto output = [&](const std::vector<at::Tensor>& x) {
    return DenseAttention({6})
        .attend(0, x[0], x[1], x[2], {.scale = 0.25f, .window = 4, .sinks = x[3]})
        .pow(2)
        .sum();
  };
  output(leaves).backward();
  for (size_t i = 0; i < leaves.size(); ++i) {
    constexpr double kStep = 1e-5;
    auto moved = [&](double step) {
      std::vector<at::Tensor> x = leaves;
      x[i] = x[i].detach() + directions[i] * step;
      return output(x).item<double>();
    };
    double difference = (moved(kStep) - moved(-kStep)) / (2 * kStep);
    EXPECT_NEAR((leaves[i].grad() * directions[i]).sum().item<double>(), difference, 1e-6) << i;
  }
}

TEST(DenseAttention, LengthsMustCoverTheRows) {
  Inputs in = random_inputs(5);
  EXPECT_EQ(thrown_by([&] { DenseAttention({4}).attend(0, in.q, in.k, in.v, {}); }).kind(),
            ErrorKind::kInternal);
}

}  // namespace
}  // namespace quaver::nn
