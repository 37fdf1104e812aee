// Paged attention against dense attention: both bodies, any chunking, any neighbours, any block order.
#include "nn/paged_attention.h"

#include <ATen/Context.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <c10/core/Scalar.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>

#include "base/error.h"
#include "nn/kernel_path.h"
#include "numerics/e4m3fn.h"

namespace quaver::nn {
namespace {

constexpr int64_t kPagedHeads = 6, kPagedKvHeads = 2, kPagedHeadDim = 16;

at::Tensor random_tensor(std::mt19937& random, std::vector<int64_t> shape) {
  at::Tensor x = at::empty(shape);
  std::normal_distribution<float> normal;
  std::generate_n(x.mutable_data_ptr<float>(), x.numel(), [&] { return normal(random); });
  return x;
}

struct Rows {
  at::Tensor q, k, v;
};

// A few sequences with a random, disjoint set of blocks each.
struct Scene {
  Scene(uint32_t seed, std::vector<int64_t> sequence_lengths, const PagedCacheOptions& cache)
      : lengths(std::move(sequence_lengths)) {
    std::mt19937 random(seed);
    std::vector<int32_t> ids(static_cast<size_t>(cache.num_blocks));
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), random);
    for (int64_t length : lengths) {
      rows.push_back({random_tensor(random, {length, kPagedHeads, kPagedHeadDim}),
                      random_tensor(random, {length, kPagedKvHeads, kPagedHeadDim}),
                      random_tensor(random, {length, kPagedKvHeads, kPagedHeadDim})});
      auto count = static_cast<size_t>((length - 1) / cache.block_size + 1);
      blocks.emplace_back(ids.end() - static_cast<long>(count), ids.end());
      ids.resize(ids.size() - count);
    }
  }

  std::vector<int64_t> lengths;
  std::vector<Rows> rows;
  std::vector<std::vector<int32_t>> blocks;
};

PagedCacheOptions cache_of(at::ScalarType dtype = at::kFloat) {
  return {.num_layers = 2,
          .num_kv_heads = kPagedKvHeads,
          .head_dim = kPagedHeadDim,
          .num_blocks = 64,
          .block_size = 4,
          .dtype = dtype};
}

// Feeds the sequences in chunks of the given size, all of them together; the answers per sequence.
std::vector<at::Tensor> run_paged(PagedAttention& attention, const Scene& scene, int64_t chunk,
                                  const AttentionParams& params) {
  std::vector<std::vector<at::Tensor>> parts(scene.rows.size());
  int64_t longest = *std::max_element(scene.lengths.begin(), scene.lengths.end());
  for (int64_t begin = 0; begin < longest; begin += chunk) {
    std::vector<PagedSequence> sequences;
    std::vector<size_t> members;
    std::vector<at::Tensor> q, k, v;
    for (size_t i = 0; i < scene.rows.size(); ++i) {
      int64_t count = std::min(chunk, scene.lengths[i] - begin);
      if (count <= 0) continue;
      members.push_back(i);
      sequences.push_back({count, begin + count, scene.blocks[i]});
      q.push_back(scene.rows[i].q.narrow(0, begin, count));
      k.push_back(scene.rows[i].k.narrow(0, begin, count));
      v.push_back(scene.rows[i].v.narrow(0, begin, count));
    }
    attention.begin(sequences);
    at::Tensor y = attention.attend(1, at::cat(q), at::cat(k), at::cat(v), params);
    int64_t row = 0;
    for (size_t m = 0; m < members.size(); ++m) {
      parts[members[m]].push_back(y.narrow(0, row, sequences[m].query_length).clone());
      row += sequences[m].query_length;
    }
  }
  std::vector<at::Tensor> answers;
  for (auto& pieces : parts) answers.push_back(at::cat(pieces));
  return answers;
}

at::Tensor run_dense(const Rows& rows, const AttentionParams& params) {
  AtenOnly reference;
  return DenseAttention({rows.q.size(0)}).attend(0, rows.q, rows.k, rows.v, params);
}

float worst(const at::Tensor& a, const at::Tensor& b) { return a.sub(b).abs().max().item().toFloat(); }

// Values are about 1 and averages of at most 37 of them, products sums over 16: a few float32 roundings each.
constexpr float kTolerance = 64 * std::numeric_limits<float>::epsilon();

// The same sequences on the GPU, where there is one: the ATen body is the only one there.
TEST(PagedAttention, EqualsDenseAttentionOnTheGpu) {
  if (!at::globalContext().hasCUDA()) return;
  Scene scene(8, {1, 37, 4, 16, 9}, cache_of());
  PagedCacheOptions cache = cache_of();
  cache.device = at::kCUDA;
  for (AttentionParams params :
       {AttentionParams{.scale = 0.25f}, {.scale = 0.25f, .window = 5, .softcap = 2.0f}})
    for (int64_t chunk : {1, 7, 64}) {
      Scene on_gpu = scene;
      for (Rows& rows : on_gpu.rows)
        rows = {rows.q.to(at::kCUDA), rows.k.to(at::kCUDA), rows.v.to(at::kCUDA)};
      PagedAttention attention(cache);
      std::vector<at::Tensor> got = run_paged(attention, on_gpu, chunk, params);
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_LT(worst(got[i].to(at::kCPU), run_dense(scene.rows[i], params)), kTolerance)
            << chunk << " " << i;
    }
}

class PagedAttentionTest : public testing::TestWithParam<AttentionParams> {};

TEST_P(PagedAttentionTest, BothBodiesEqualDenseAttention) {
  Scene scene(1, {1, 37, 4, 16, 9}, cache_of());
  for (bool aten : {false, true})
    for (int64_t chunk : {1, 3, 4, 7, 64}) {
      PagedAttention attention(cache_of());
      std::optional<AtenOnly> only;
      if (aten) only.emplace();
      std::vector<at::Tensor> got = run_paged(attention, scene, chunk, GetParam());
      only.reset();
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_LT(worst(got[i], run_dense(scene.rows[i], GetParam())), kTolerance)
            << (aten ? "aten" : "kernel") << " chunk " << chunk << " sequence " << i;
    }
}

TEST_P(PagedAttentionTest, KernelsGiveTheSameBitsAloneAndInAnyChunks) {
  Scene scene(2, {33, 8, 21}, cache_of(at::kBFloat16));
  PagedAttention together(cache_of(at::kBFloat16));
  std::vector<at::Tensor> expected = run_paged(together, scene, 64, GetParam());
  for (int64_t chunk : {1, 5, 16}) {
    PagedAttention attention(cache_of(at::kBFloat16));
    std::vector<at::Tensor> got = run_paged(attention, scene, chunk, GetParam());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(expected[i])) << chunk << " " << i;
  }
  for (size_t i = 0; i < scene.rows.size(); ++i) {
    Scene alone = scene;
    alone.lengths = {scene.lengths[i]};
    alone.rows = {scene.rows[i]};
    alone.blocks = {scene.blocks[i]};
    PagedAttention attention(cache_of(at::kBFloat16));
    EXPECT_TRUE(run_paged(attention, alone, 64, GetParam())[0].equal(expected[i])) << i;
  }
}

AttentionParams with_some_sinks(AttentionParams params) {
  params.sinks = at::tensor({-3.0f, 0.0f, 1.0f, 2.5f, 9.0f, 0.5f});
  return params;
}

INSTANTIATE_TEST_SUITE_P(Kinds, PagedAttentionTest,
                         testing::Values(AttentionParams{.scale = 0.25f},
                                         AttentionParams{.scale = 0.25f, .window = 5},
                                         AttentionParams{.scale = 0.25f, .softcap = 2.0f},
                                         AttentionParams{.scale = 0.25f, .window = 3, .softcap = 1.0f},
                                         with_some_sinks({.scale = 0.25f}),
                                         with_some_sinks({.scale = 0.25f, .window = 5})));

TEST(PagedAttention, SixteenBitCachesRoundOnce) {
  Scene scene(3, {20}, cache_of());
  AttentionParams params{.scale = 0.25f};
  for (at::ScalarType dtype : {at::kBFloat16, at::kHalf})
    for (bool aten : {false, true}) {
      PagedAttention attention(cache_of(dtype));
      std::optional<AtenOnly> only;
      if (aten) only.emplace();
      at::Tensor got = run_paged(attention, scene, 6, params)[0];
      only.reset();
      Rows rounded = {scene.rows[0].q, scene.rows[0].k.to(dtype).to(at::kFloat),
                      scene.rows[0].v.to(dtype).to(at::kFloat)};
      EXPECT_LT(worst(got, run_dense(rounded, params)), kTolerance) << aten;
    }
}

// [tokens, kv_heads, head_dim], value by value.
at::Tensor rounded_to_codes(const at::Tensor& x, const std::vector<float>& scales) {
  at::Tensor y = x.clone();
  float* values = y.mutable_data_ptr<float>();
  for (int64_t i = 0; i < y.numel(); ++i) {
    const float scale = scales[static_cast<size_t>(i / kPagedHeadDim % kPagedKvHeads)];
    values[i] = e4m3fn_to_float(float_to_e4m3fn(values[i] / scale)) * scale;
  }
  return y;
}

TEST(PagedAttention, EightBitCachesRoundUnderTheLayersScales) {
  Scene scene(7, {20, 1, 9}, cache_of());
  const std::vector<float> ones(kPagedKvHeads, 1.0f), key_scales = {0.004f, 0.01f},
                                                      value_scales = {0.006f, 2.0f};
  const AttentionParams plain{.scale = 0.25f};
  AttentionParams scaled = plain;
  scaled.kv_scaling = KvScaling{at::tensor(key_scales), at::tensor(value_scales)};
  for (bool aten : {false, true})
    for (at::ScalarType dtype : {at::kFloat8_e4m3fn, at::kFloat})
      for (const AttentionParams& params : {plain, scaled}) {
        if (dtype == at::kFloat && !params.kv_scaling) continue;
        PagedAttention attention(cache_of(dtype));
        std::optional<AtenOnly> only;
        if (aten) only.emplace();
        const std::vector<at::Tensor> got = run_paged(attention, scene, 6, params);
        only.reset();
        for (size_t i = 0; i < got.size(); ++i) {
          const Rows& rows = scene.rows[i];
          Rows rounded = {rows.q, rounded_to_codes(rows.k, params.kv_scaling ? key_scales : ones),
                          rounded_to_codes(rows.v, params.kv_scaling ? value_scales : ones)};
          EXPECT_LT(worst(got[i], run_dense(rounded, plain)), kTolerance) << aten << dtype << i;
          EXPECT_LT(worst(run_dense(rows, params), run_dense(params.kv_scaling ? rounded : rows, plain)),
                    kTolerance);
        }
      }
}

TEST(PagedAttention, EightBitCachesRoundAlikeOnTheGpu) {
  if (!at::globalContext().hasCUDA()) return;
  Scene scene(7, {20, 1, 9}, cache_of());
  const std::vector<float> key_scales = {0.004f, 0.01f}, value_scales = {0.006f, 2.0f};
  const AttentionParams plain{.scale = 0.25f};
  AttentionParams scaled = plain;
  scaled.kv_scaling = KvScaling{at::tensor(key_scales).to(at::kCUDA), at::tensor(value_scales).to(at::kCUDA)};
  for (at::ScalarType dtype : {at::kFloat8_e4m3fn, at::kFloat}) {
    PagedCacheOptions cache = cache_of(dtype);
    cache.device = at::kCUDA;
    Scene on_gpu = scene;
    for (Rows& rows : on_gpu.rows) rows = {rows.q.to(at::kCUDA), rows.k.to(at::kCUDA), rows.v.to(at::kCUDA)};
    PagedAttention attention(cache);
    const std::vector<at::Tensor> got = run_paged(attention, on_gpu, 6, scaled);
    for (size_t i = 0; i < got.size(); ++i) {
      const Rows& rows = scene.rows[i];
      const Rows rounded = {rows.q, rounded_to_codes(rows.k, key_scales),
                            rounded_to_codes(rows.v, value_scales)};
      EXPECT_LT(worst(got[i].to(at::kCPU), run_dense(rounded, plain)), kTolerance) << dtype << i;
    }
  }
}

TEST(KvScaling, GradientsPassUnchanged) {
  at::Tensor x = at::randn({3, 2, 4}).requires_grad_(true), upstream = at::randn({3, 2, 4});
  at::Tensor y = round_kv(x, at::tensor({0.1f, 3.0f}));
  EXPECT_FALSE(y.detach().equal(x.detach()));
  EXPECT_TRUE(torch::autograd::grad({y}, {x}, {upstream})[0].equal(upstream));
}

TEST(PagedAttention, F087_AnothersNaNIsNotSeen) {
  AttentionParams params{.scale = 0.25f};
  for (bool aten : {false, true}) {
    std::optional<AtenOnly> only;
    if (aten) only.emplace();
    PagedAttention attention(cache_of());
    Scene poisoned(4, {64, 64, 64, 63}, cache_of());
    for (Rows& rows : poisoned.rows) rows.k.fill_(NAN), rows.v.fill_(NAN);
    run_paged(attention, poisoned, 64, params);
    Scene scene(5, {7, 1, 30}, cache_of());  // reuses the blocks
    for (int64_t chunk : {1, 64}) {
      std::vector<at::Tensor> got = run_paged(attention, scene, chunk, params);
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_LT(worst(got[i], run_dense(scene.rows[i], params)), kTolerance) << aten << chunk << i;
    }
  }
}

TEST(PagedAttention, TakesSlicesOfAFusedProjection) {
  Scene scene(6, {11}, cache_of());
  Rows& rows = scene.rows[0];
  at::Tensor fused = at::cat({rows.q, rows.k, rows.v}, 1);
  at::Tensor expected = run_dense(rows, {.scale = 0.25f});
  rows = {fused.narrow(1, 0, kPagedHeads), fused.narrow(1, kPagedHeads, kPagedKvHeads),
          fused.narrow(1, kPagedHeads + kPagedKvHeads, kPagedKvHeads)};
  PagedAttention attention(cache_of());
  attention.begin({{11, 11, scene.blocks[0]}});
  EXPECT_LT(worst(attention.attend(0, rows.q, rows.k, rows.v, {.scale = 0.25f}), expected), kTolerance);
}

TEST(PagedAttention, RefusesWhatDoesNotFit) {
  PagedAttention attention(cache_of());
  std::vector<int32_t> blocks = {0, 1}, outside = {0, 64}, negative = {-1};
  EXPECT_THROW(attention.begin({{1, 9, blocks}}), Error);
  EXPECT_THROW(attention.begin({{3, 2, blocks}}), Error);
  EXPECT_THROW(attention.begin({{1, 2, outside}}), Error);
  EXPECT_THROW(attention.begin({{1, 2, negative}}), Error);
  attention.begin({{2, 2, blocks}});
  at::Tensor q = at::empty({3, kPagedHeads, kPagedHeadDim}), k = at::empty({3, kPagedKvHeads, kPagedHeadDim});
  EXPECT_THROW(attention.attend(0, q, k, k, {}), Error);
}

TEST(PagedAttention, CountsItsBytes) {
  EXPECT_EQ(cache_of().bytes_per_block(), 2 * 2 * kPagedKvHeads * kPagedHeadDim * 4 * 4);
  EXPECT_EQ(cache_of(at::kFloat8_e4m3fn).bytes_per_block(), 2 * 2 * kPagedKvHeads * kPagedHeadDim * 4);
  EXPECT_EQ(cache_of(at::kBFloat16).bytes_per_block(), 2 * 2 * kPagedKvHeads * kPagedHeadDim * 4 * 2);
}

}  // namespace
}  // namespace quaver::nn
