// Paged and dense attention against double precision; independence of batch, chunking and threads.
#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/support.h"
#include "numerics/e4m3fn.h"
#include "numerics/half.h"

namespace quaver::kernels {
namespace {

struct Layout {
  int64_t heads = 6, kv_heads = 2, head_dim = 64, block_size = 16;
  DType dtype = DType::kF32;
  int64_t window = 0;
  float softcap = 0;
  std::vector<int64_t> lengths = {70};
  bool sinks = false;
};

// Sequences of whole lengths in a paged cache with shuffled blocks, and their queries.
struct World {
  Layout s;
  std::vector<float> q, k, v;  // [tokens, heads, dim]; values as the cache holds them
  std::vector<float> sinks;    // [heads], from far below every score to far above
  std::vector<std::byte> keys, values;
  std::vector<float> key_scales, value_scales;  // of e4m3fn: the largest values are cut
  std::vector<std::vector<int32_t>> tables;
  std::vector<int64_t> starts;
  int64_t tokens = 0, blocks = 0;

  explicit World(Layout layout, const CpuFeatures& cpu) : s(std::move(layout)) {
    for (int64_t length : s.lengths) {
      starts.push_back(tokens);
      tokens += length;
      tables.emplace_back(static_cast<size_t>((length + s.block_size - 1) / s.block_size));
      blocks += static_cast<int64_t>(tables.back().size());
    }
    Random random(11);
    q = random.normals(tokens * s.heads * s.head_dim);
    k = random.normals(tokens * s.kv_heads * s.head_dim);
    v = random.normals(tokens * s.kv_heads * s.head_dim);
    for (int64_t h = 0; h < s.heads; ++h)
      sinks.push_back(-20.0f + 40.0f * static_cast<float>(h) / static_cast<float>(s.heads));
    blocks += 3;
    std::vector<int32_t> free(static_cast<size_t>(blocks));
    std::iota(free.begin(), free.end(), 0);
    std::shuffle(free.begin(), free.end(), random.engine());
    for (auto& table : tables)
      for (int32_t& block : table) {
        block = free.back();
        free.pop_back();
      }
    fill_cache(cpu);
  }

  KvCacheView cache() {
    KvCacheView view = {keys.data(), values.data(), s.dtype, blocks, s.kv_heads, s.block_size, s.head_dim};
    if (s.dtype == DType::kF8E4M3)
      view.key_scales = key_scales.data(), view.value_scales = value_scales.data();
    return view;
  }

  void fill_cache(const CpuFeatures& cpu) {
    auto bytes = static_cast<size_t>(blocks * s.kv_heads * s.block_size * s.head_dim *
                                     dtype_info(s.dtype).block_bytes);
    for (int64_t head = 0; head < s.kv_heads; ++head) {
      key_scales.push_back(0.004f + 0.001f * static_cast<float>(head));
      value_scales.push_back(0.007f - 0.001f * static_cast<float>(head));
    }
    keys.assign(bytes, std::byte{0xff});  // NaN wherever nothing was written
    values.assign(bytes, std::byte{0xff});
    std::vector<int64_t> slots;
    for (size_t i = 0; i < s.lengths.size(); ++i)
      for (int64_t p = 0; p < s.lengths[i]; ++p)
        slots.push_back(tables[i][static_cast<size_t>(p / s.block_size)] * s.block_size + p % s.block_size);
    int64_t stride = s.kv_heads * s.head_dim;
    write_kv({.cache = cache(),
              .k = k.data(),
              .k_stride = stride,
              .v = v.data(),
              .v_stride = stride,
              .slots = slots},
             cpu);
    round(k, key_scales);
    round(v, value_scales);
  }

  void round(std::vector<float>& rows, const std::vector<float>& scales) const {
    for (size_t i = 0; i < rows.size(); ++i) {
      float& x = rows[i];
      const float scale = scales[i / static_cast<size_t>(s.head_dim) % static_cast<size_t>(s.kv_heads)];
      if (s.dtype == DType::kF16) x = f16_to_float(float_to_f16(x));
      if (s.dtype == DType::kBF16) x = bf16_to_float(float_to_bf16(x));
      if (s.dtype == DType::kF8E4M3) x = e4m3fn_to_float(float_to_e4m3fn(x / scale)) * scale;
    }
  }

  AttentionShape shape() const {
    return {.heads = s.heads,
            .scale = 1 / std::sqrt(static_cast<float>(s.head_dim)),
            .window = s.window,
            .softcap = s.softcap,
            .sinks = s.sinks ? sinks.data() : nullptr};
  }

  // Runs queries [first, first + count) of sequence i, or all of every sequence.
  std::vector<float> run(const std::vector<AttentionSequence>& sequences, const CpuFeatures& cpu,
                         ThreadPool* pool) {
    std::vector<float> y(q.size(), 55.0f);
    int64_t stride = s.heads * s.head_dim;
    paged_attention({.shape = shape(),
                     .cache = cache(),
                     .q = q.data(),
                     .q_stride = stride,
                     .y = y.data(),
                     .y_stride = stride,
                     .sequences = sequences,
                     .pool = pool},
                    cpu);
    return y;
  }
  AttentionSequence part(size_t i, int64_t first, int64_t count) const {
    return {starts[i] + first, count, first + count, tables[i].data()};
  }
  std::vector<AttentionSequence> whole() const {
    std::vector<AttentionSequence> all;
    for (size_t i = 0; i < s.lengths.size(); ++i) all.push_back(part(i, 0, s.lengths[i]));
    return all;
  }
};

struct Expected {
  std::vector<double> value, largest;  // of one query and head: result, and largest |v| seen per channel
  double score = 0;                    // largest |q||k| sum
};

Expected by_definition(const World& w, size_t sequence, int64_t position, int64_t head) {
  const Layout& s = w.s;
  int64_t kv = head / (s.heads / s.kv_heads),
          begin = s.window > 0 ? std::max<int64_t>(0, position - s.window + 1) : 0;
  const float* q = w.q.data() + ((w.starts[sequence] + position) * s.heads + head) * s.head_dim;
  auto row = [&](const std::vector<float>& x, int64_t p) {
    return x.data() + ((w.starts[sequence] + p) * s.kv_heads + kv) * s.head_dim;
  };
  Expected e = {std::vector<double>(static_cast<size_t>(s.head_dim)),
                std::vector<double>(static_cast<size_t>(s.head_dim))};
  std::vector<double> scores;
  for (int64_t p = begin; p <= position; ++p) {
    double dot = 0, magnitude = 0;
    for (int64_t i = 0; i < s.head_dim; ++i) {
      dot += static_cast<double>(q[i]) * row(w.k, p)[i];
      magnitude += std::abs(static_cast<double>(q[i]) * row(w.k, p)[i]);
    }
    dot *= w.shape().scale;
    e.score = std::max(e.score, magnitude * w.shape().scale);
    scores.push_back(s.softcap > 0 ? s.softcap * std::tanh(dot / s.softcap) : dot);
  }
  double sink = w.sinks[static_cast<size_t>(head)];
  double max = *std::max_element(scores.begin(), scores.end());
  if (s.sinks) max = std::max(max, sink);
  double sum = s.sinks ? std::exp(sink - max) : 0;
  for (double& x : scores) sum += x = std::exp(x - max);
  for (int64_t p = begin; p <= position; ++p)
    for (int64_t i = 0; i < s.head_dim; ++i) {
      auto at = static_cast<size_t>(i);
      e.value[at] += scores[static_cast<size_t>(p - begin)] / sum * row(w.v, p)[i];
      e.largest[at] = std::max<double>(e.largest[at], std::abs(row(w.v, p)[i]));
    }
  return e;
}

void expect_definition(const World& w, const std::vector<float>& y, const CpuFeatures& cpu) {
  for (size_t i = 0; i < w.s.lengths.size(); ++i)
    for (int64_t p = 0; p < w.s.lengths[i]; p += 1 + p / 9)
      for (int64_t h = 0; h < w.s.heads; ++h) {
        Expected e = by_definition(w, i, p, h);
        const float* got = y.data() + ((w.starts[i] + p) * w.s.heads + h) * w.s.head_dim;
        for (int64_t c = 0; c < w.s.head_dim; ++c) {
          // A score's rounding moves its weight by as much, twice over (numerator and sum).
          double magnitude = e.largest[static_cast<size_t>(c)] * (1 + 2 * e.score);
          ASSERT_NEAR(got[c], e.value[static_cast<size_t>(c)], sum_tolerance(magnitude, p + 1 + w.s.head_dim))
              << to_string(cpu) << " sequence " << i << " position " << p << " head " << h << " channel "
              << c;
        }
      }
}

std::vector<Layout> layouts() {
  return {{.lengths = {1, 70, 3}},
          {.dtype = DType::kF16, .lengths = {600}},
          {.dtype = DType::kBF16, .lengths = {33, 129}},
          {.dtype = DType::kF8E4M3, .lengths = {33, 300}},
          {.heads = 6, .kv_heads = 3, .head_dim = 20, .dtype = DType::kF8E4M3, .window = 50, .lengths = {90}},
          {.heads = 4, .kv_heads = 4, .head_dim = 20, .block_size = 5, .lengths = {40, 11}},
          {.heads = 9, .kv_heads = 3, .dtype = DType::kF16, .window = 50, .lengths = {400}},
          {.heads = 2, .kv_heads = 1, .head_dim = 256, .softcap = 5.0f, .lengths = {90}},
          {.heads = 128, .kv_heads = 1, .head_dim = 16, .lengths = {65}},
          {.heads = 1, .kv_heads = 1, .head_dim = 80, .block_size = 1, .window = 1, .lengths = {30}},
          {.heads = 8, .kv_heads = 2, .dtype = DType::kBF16, .lengths = {1, 600}, .sinks = true},
          {.heads = 9, .kv_heads = 3, .window = 50, .softcap = 4.0f, .lengths = {300}, .sinks = true}};
}

TEST(Attention, PagedMatchesDoublePrecision) {
  ThreadPool pool(2);
  for (const Layout& layout : layouts())
    for (const CpuFeatures& cpu : cpu_levels()) {
      World w(layout, cpu);
      expect_definition(w, w.run(w.whole(), cpu, &pool), cpu);
    }
}

// Two positions of one channel with scores 0 and tanh(x) and values 0 and 1: the result is the logistic
// function of tanh(x), and shows its error undiluted.
TEST(Attention, SoftcapIsAccurate) {
  for (const CpuFeatures& cpu : cpu_levels())
    for (double x = -12; x < 12; x += 0.0137) {
      std::vector<float> q = {1, 1}, k = {0, static_cast<float>(x)}, v = {0, 1}, y(2);
      std::vector<int64_t> lengths = {2};
      dense_attention({.shape = {.heads = 1, .scale = 1, .softcap = 1},
                       .kv_heads = 1,
                       .head_dim = 1,
                       .q = q.data(),
                       .k = k.data(),
                       .v = v.data(),
                       .y = y.data(),
                       .lengths = lengths},
                      cpu);
      double expected = 1 / (1 + std::exp(-std::tanh(static_cast<double>(k[1]))));
      ASSERT_NEAR(y[1], expected, 4 * 1.2e-7) << to_string(cpu) << " at " << x;
    }
}

TEST(Attention, DenseEqualsPaged) {
  ThreadPool pool(2);
  for (const CpuFeatures& cpu : cpu_levels()) {
    World w({.lengths = {70, 1, 300}}, cpu);
    std::vector<float> y(w.q.size());
    dense_attention({.shape = w.shape(),
                     .kv_heads = 2,
                     .head_dim = 64,
                     .q = w.q.data(),
                     .k = w.k.data(),
                     .v = w.v.data(),
                     .y = y.data(),
                     .lengths = w.s.lengths,
                     .pool = &pool},
                    cpu);
    EXPECT_EQ(y, w.run(w.whole(), cpu, nullptr)) << to_string(cpu);
  }
}

TEST(Attention, BitsDependOnNothingButTheQueryAndItsContext) {
  ThreadPool three(3);
  for (const Layout& layout : {Layout{.dtype = DType::kF16, .lengths = {700, 20, 300}},
                               Layout{.dtype = DType::kF8E4M3, .lengths = {500, 20}},
                               Layout{.heads = 9, .kv_heads = 3, .window = 100, .lengths = {500, 3}},
                               Layout{.dtype = DType::kF16, .lengths = {700, 20}, .sinks = true}})
    for (const CpuFeatures& cpu : cpu_levels()) {
      World w(layout, cpu);
      std::vector<float> together = w.run(w.whole(), cpu, &three);
      EXPECT_EQ(together, w.run(w.whole(), cpu, nullptr)) << "threads";
      int64_t row = w.s.heads * w.s.head_dim;
      auto expect_rows = [&](const std::vector<float>& y, int64_t first, int64_t count, const char* what) {
        EXPECT_EQ(0, std::memcmp(y.data() + first * row, together.data() + first * row,
                                 static_cast<size_t>(count * row) * 4))
            << what << " " << to_string(cpu);
      };
      int64_t length = w.s.lengths[0];
      expect_rows(w.run({w.part(0, length - 1, 1)}, cpu, &three), length - 1, 1, "decoding");
      expect_rows(w.run({w.part(0, 37, 200)}, cpu, &three), 37, 200, "a piece of the prompt");
      expect_rows(w.run({w.part(0, 290, 5), w.part(1, 2, 1)}, cpu, &three), 290, 5, "a mixed batch");
    }
}

// Every code reads as its value, NaN too: one position, so that the result is the value itself.
TEST(Attention, EveryE4m3fnCodeIsRead) {
  for (const CpuFeatures& cpu : cpu_levels())
    for (int first = 0; first < 256; first += 32) {
      std::vector<uint8_t> keys(32, 0), values(32);
      std::iota(values.begin(), values.end(), static_cast<uint8_t>(first));
      std::vector<float> q(32, 1.0f), y(32);
      const int32_t table[] = {0};
      std::vector<AttentionSequence> one = {{0, 1, 1, table}};
      paged_attention({.shape = {.heads = 1},
                       .cache = {keys.data(), values.data(), DType::kF8E4M3, 1, 1, 1, 32},
                       .q = q.data(),
                       .q_stride = 32,
                       .y = y.data(),
                       .y_stride = 32,
                       .sequences = one},
                      cpu);
      for (size_t i = 0; i < 32; ++i) {
        const float value = e4m3fn_to_float(values[i]);
        EXPECT_TRUE(std::isnan(value) ? std::isnan(y[i]) : y[i] == value)
            << to_string(cpu) << " " << first + i;
      }
    }
}

TEST(Attention, WriteKvInE4m3fnDividesByTheScaleAndCuts) {
  for (const CpuFeatures& cpu : cpu_levels()) {
    std::vector<uint8_t> keys(4, 1), values(4, 1);
    const float key_scale = 0.5f, value_scale = 3.0f;
    std::vector<float> k = {1e9f, -300.0f, 0.3f, std::numeric_limits<float>::quiet_NaN()}, v = {1, 2, 3, -4};
    std::vector<int64_t> slots = {0};
    write_kv({.cache = {keys.data(), values.data(), DType::kF8E4M3, 1, 1, 1, 4, &key_scale, &value_scale},
              .k = k.data(),
              .k_stride = 4,
              .v = v.data(),
              .v_stride = 4,
              .slots = slots},
             cpu);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(keys[i], float_to_e4m3fn(k[i] / key_scale));
      EXPECT_EQ(values[i], float_to_e4m3fn(v[i] / value_scale));
    }
    EXPECT_EQ(e4m3fn_to_float(keys[0]), 448.0f);
  }
}

TEST(Attention, WriteKvLeavesOutNegativeSlotsAndRounds) {
  for (const CpuFeatures& cpu : cpu_levels()) {
    std::vector<uint16_t> keys(2 * 3 * 5, 7), values(2 * 3 * 5, 7);  // 2 blocks, 1 head, 3 places, dim 5
    KvCacheView cache = {keys.data(), values.data(), DType::kBF16, 2, 1, 3, 5};
    std::vector<float> k = Random(1).normals(10), v = Random(2).normals(10);
    v[9] = std::numeric_limits<float>::quiet_NaN();
    std::vector<int64_t> slots = {-1, 4};
    write_kv({.cache = cache, .k = k.data(), .k_stride = 5, .v = v.data(), .v_stride = 5, .slots = slots},
             cpu);
    for (size_t i = 0; i < 30; ++i) {
      bool written = i >= 20 && i < 25;
      EXPECT_EQ(keys[i], written ? float_to_bf16(k[5 + i - 20]) : 7);
      if (i == 24) continue;
      EXPECT_EQ(values[i], written ? float_to_bf16(v[5 + i - 20]) : 7);
    }
    EXPECT_TRUE(std::isnan(bf16_to_float(values[24])));
  }
}

}  // namespace
}  // namespace quaver::kernels
