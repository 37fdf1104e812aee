// Fake quantization: levels agree bit for bit, values follow the formulas, gradients follow finite
// differences.
#include "kernels/qdq/qdq.h"

#include <gtest/gtest.h>

#include "kernels/support.h"
#include "numerics/half.h"

namespace quaver::kernels {
namespace {

struct Problem {
  QdqScheme scheme;
  int64_t rows, cols, groups;
  std::vector<float> w, v, alpha, beta, dw;

  Problem(QdqScheme s, int64_t r, int64_t c, uint64_t seed = 1) : scheme(s), rows(r), cols(c) {
    Random random(seed);
    groups = (cols + s.group - 1) / s.group;
    w = random.normals(rows * cols, 0.05f);
    for (int64_t i = 0; i < std::min(s.group, cols); ++i)
      w[static_cast<size_t>(i)] = 0.0f;  // a group of nothing
    for (float& x : w) x = bf16_to_float(float_to_bf16(x));
    v = random.normals(rows * cols, 0.4f);
    for (float& x : v) x = bf16_to_float(float_to_bf16(x));
    for (int64_t g = 0; g < rows * groups; ++g) {  // some beyond the clamp
      alpha.push_back(s.range_limit * (0.9f + 0.2f * random.normal()));
      beta.push_back(s.range_limit * (0.9f + 0.2f * random.normal()));
    }
    dw = random.normals(rows * cols);
  }
  QdqArgs args() {
    return {.scheme = scheme,
            .rows = rows,
            .cols = cols,
            .w = w.data(),
            .v = v.data(),
            .alpha = alpha.data(),
            .beta = beta.data()};
  }
};

struct Forward {
  std::vector<float> w_hat, scale, zero;
  std::vector<uint8_t> codes;
  bool operator==(const Forward&) const = default;
};

Forward forward(Problem& p, const CpuFeatures& cpu) {
  auto size = static_cast<size_t>(p.rows * p.cols), groups = static_cast<size_t>(p.rows * p.groups);
  Forward f = {std::vector<float>(size), std::vector<float>(groups), std::vector<float>(groups),
               std::vector<uint8_t>(size)};
  qdq_forward(
      p.args(),
      {.w_hat = f.w_hat.data(), .scale = f.scale.data(), .zero = f.zero.data(), .codes = f.codes.data()},
      cpu);
  return f;
}

float limited(const Problem& p, float x) { return std::min(p.scheme.range_limit, std::max(0.0f, x)); }

// Straight from the formulas of qdq.h, one element at a time.
float w_hat_by_formula(const Problem& p, int64_t r, int64_t c, float* scale_out = nullptr) {
  int64_t g = c / p.scheme.group, begin = g * p.scheme.group, end = std::min(p.cols, begin + p.scheme.group);
  float low = 0, high = 0;
  for (int64_t i = begin; i < end; ++i) {
    low = std::min(low, p.w[static_cast<size_t>(r * p.cols + i)]);
    high = std::max(high, p.w[static_cast<size_t>(r * p.cols + i)]);
  }
  float alpha = limited(p, p.alpha[static_cast<size_t>(r * p.groups + g)]);
  float beta = limited(p, p.beta[static_cast<size_t>(r * p.groups + g)]);
  auto f16 = [](float x) { return f16_to_float(float_to_f16(x)); };
  float floor = f16(1e-5f), w = p.w[static_cast<size_t>(r * p.cols + c)],
        v = p.v[static_cast<size_t>(r * p.cols + c)];
  if (p.scheme.symmetric) {
    auto m = static_cast<float>(1 << (p.scheme.bits - 1));
    float a = -(low * alpha), top = high * beta, e = std::max(a, top);
    float s = f16((top < a ? e : -e) / m);
    s = s < 0 ? std::min(s, -floor) : std::max(s, floor);
    if (scale_out) *scale_out = s;
    return s * std::min(std::max(std::nearbyint(w / s + v), -m), m - 1);
  }
  auto q = static_cast<float>((1 << p.scheme.bits) - 1);
  float s = std::max(f16((high * beta - low * alpha) / q), floor), z = std::nearbyint(-(low * alpha) / s);
  if (scale_out) *scale_out = s;
  return s * (std::min(std::max(std::nearbyint(w / s + v) + z, 0.0f), q) - z);
}

std::vector<QdqScheme> schemes() {
  std::vector<QdqScheme> all;
  for (int bits : {2, 3, 4, 8})
    for (int64_t group : {7, 32, 128, 1000})
      for (bool symmetric : {true, false})
        for (float limit : {1.0f, 2.0f}) all.push_back({bits, group, symmetric, false, limit});
  return all;
}

TEST(Qdq, ForwardFollowsTheFormulasAtEveryLevel) {
  for (const QdqScheme& scheme : schemes()) {
    Problem p(scheme, 3, 300);
    Forward reference = forward(p, {});
    for (int64_t r = 0; r < p.rows; ++r)
      for (int64_t c = 0; c < p.cols; ++c) {
        float scale = 0, expected = w_hat_by_formula(p, r, c, &scale);
        auto at = static_cast<size_t>(r * p.cols + c),
             g = static_cast<size_t>(r * p.groups + c / scheme.group);
        ASSERT_EQ(reference.w_hat[at], expected) << "bits " << scheme.bits << " column " << c;
        ASSERT_EQ(reference.scale[g], scale);
        ASSERT_EQ(scale * (static_cast<float>(reference.codes[at]) - reference.zero[g]), expected);
      }
    for (const CpuFeatures& cpu : cpu_levels()) EXPECT_TRUE(forward(p, cpu) == reference) << to_string(cpu);
  }
}

TEST(Qdq, PlainRoundingNeedsNoParameters) {
  for (const CpuFeatures& cpu : cpu_levels())
    for (bool symmetric : {true, false}) {
      Problem p({4, 128, symmetric}, 4, 576);
      std::fill(p.v.begin(), p.v.end(), 0.0f);
      std::fill(p.alpha.begin(), p.alpha.end(), 1.0f);
      std::fill(p.beta.begin(), p.beta.end(), 1.0f);
      Forward with = forward(p, cpu);
      std::vector<float> w_hat(p.w.size());
      QdqArgs args = p.args();
      args.v = args.alpha = args.beta = nullptr;
      qdq_forward(args, {.w_hat = w_hat.data()}, cpu);
      EXPECT_EQ(w_hat, with.w_hat);
    }
}

std::vector<uint16_t> to_bf16(const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  for (float v : values) bits.push_back(float_to_bf16(v));
  return bits;
}

TEST(Qdq, BFloat16ArraysHoldTheSameNumbers) {
  for (const CpuFeatures& cpu : cpu_levels()) {
    Problem p({4, 32, true}, 3, 100);
    Forward reference = forward(p, {});
    std::vector<uint16_t> w = to_bf16(p.w), v = to_bf16(p.v), w_hat(p.w.size());
    QdqArgs args = p.args();
    args.w = w.data();
    args.v = v.data();
    args.w_dtype = args.v_dtype = DType::kBF16;
    qdq_forward(args, {.w_hat = w_hat.data(), .dtype = DType::kBF16}, cpu);
    EXPECT_EQ(w_hat, to_bf16(reference.w_hat));
  }
}

struct Gradients {
  std::vector<float> v, alpha, beta;
};

Gradients backward(Problem& p, float v_rate, float range_rate, const CpuFeatures& cpu,
                   ThreadPool* pool = nullptr) {
  Gradients g = {std::vector<float>(p.w.size()), std::vector<float>(p.alpha.size()),
                 std::vector<float>(p.alpha.size())};
  QdqArgs args = p.args();
  args.pool = pool;
  qdq_backward(args,
               {.dw_hat = p.dw.data(),
                .dv = g.v.data(),
                .dalpha = g.alpha.data(),
                .dbeta = g.beta.data(),
                .v_rate = v_rate,
                .range_rate = range_rate},
               cpu);
  return g;
}

// The same loss with the rounding errors frozen: what "straight through" differentiates.
double frozen_loss(const Problem& p, int64_t r, int64_t g, double alpha, double beta) {
  int64_t begin = g * p.scheme.group, end = std::min(p.cols, begin + p.scheme.group);
  float low = 0, high = 0;
  for (int64_t i = begin; i < end; ++i) {
    low = std::min(low, p.w[static_cast<size_t>(r * p.cols + i)]);
    high = std::max(high, p.w[static_cast<size_t>(r * p.cols + i)]);
  }
  float alpha0 = limited(p, p.alpha[static_cast<size_t>(r * p.groups + g)]);
  float beta0 = limited(p, p.beta[static_cast<size_t>(r * p.groups + g)]);
  auto f16 = [](float x) { return f16_to_float(float_to_f16(x)); };
  double loss = 0;
  for (int64_t i = begin; i < end; ++i) {
    auto at = static_cast<size_t>(r * p.cols + i);
    double w = p.w[at], v = p.v[at], w_hat;
    if (p.scheme.symmetric) {
      auto m = static_cast<float>(1 << (p.scheme.bits - 1));
      float a0 = -(low * alpha0), c0 = high * beta0, raw0 = (c0 < a0 ? a0 : -c0) / m;
      double raw = (c0 < a0 ? -low * alpha : -(high * beta)) / m;
      float s0 = f16(raw0), shifted0 = std::nearbyint(p.w[at] / s0 + p.v[at]);
      double s = raw + (s0 - raw0), shifted = w / s + v + (shifted0 - (p.w[at] / s0 + p.v[at]));
      bool inside = shifted0 >= -m && shifted0 <= m - 1;
      w_hat = s * (inside ? shifted : std::min(std::max(shifted0, -m), m - 1));
    } else {
      auto q = static_cast<float>((1 << p.scheme.bits) - 1);
      float raw0 = (high * beta0 - low * alpha0) / q, s0 = f16(raw0), ratio0 = -(low * alpha0) / s0;
      double s = (high * beta - low * alpha) / q + (s0 - raw0), z0 = std::nearbyint(ratio0);
      double z = -low * alpha / s + (z0 - ratio0);
      float rounded0 = std::nearbyint(p.w[at] / s0 + p.v[at]);
      double level0 = rounded0 + z0, level = w / s + v + (rounded0 - (p.w[at] / s0 + p.v[at])) + z;
      bool inside = level0 >= 0 && level0 <= q;
      w_hat = s * ((inside ? level : std::min<double>(std::max(level0, 0.0), q)) - z);
    }
    loss += p.dw[at] * w_hat;
  }
  return loss;
}

TEST(Qdq, GradientsAreThoseOfTheStraightThroughLoss) {
  for (const QdqScheme& scheme : schemes()) {
    Problem p(scheme, 3, 300, 5);
    for (float& a : p.alpha)
      a = 0.55f + 0.4f * std::clamp(a, 0.0f, 1.0f);  // away from the clamp, whose slope is not differentiated
    for (float& b : p.beta) b = 0.5f + 0.4f * std::clamp(b, 0.0f, 1.0f);
    Gradients got = backward(p, 0, 0, {});
    for (int64_t r = 0; r < p.rows; ++r)
      for (int64_t g = 0; g < p.groups; ++g) {
        if (r == 0 && g == 0) continue;  // the group of nothing: its scale sits on the floor
        auto at = static_cast<size_t>(r * p.groups + g);
        double h = 1e-5, a = limited(p, p.alpha[at]), b = limited(p, p.beta[at]);
        double da = (frozen_loss(p, r, g, a + h, b) - frozen_loss(p, r, g, a - h, b)) / (2 * h);
        double db = (frozen_loss(p, r, g, a, b + h) - frozen_loss(p, r, g, a, b - h)) / (2 * h);
        double scale = 0.05 * std::sqrt(static_cast<double>(scheme.group)) + std::abs(da) + std::abs(db);
        EXPECT_NEAR(got.alpha[at], da, 2e-3 * scale) << "bits " << scheme.bits << " sym " << scheme.symmetric;
        EXPECT_NEAR(got.beta[at], db, 2e-3 * scale) << "bits " << scheme.bits << " sym " << scheme.symmetric;
      }
    for (size_t i = 0; i < p.w.size(); i += 11) {
      auto r = static_cast<int64_t>(i) / p.cols, c = static_cast<int64_t>(i) % p.cols;
      float scale = 0, at_rest = w_hat_by_formula(p, r, c, &scale);
      Problem up = p, down = p;
      up.v[i] += 1;
      down.v[i] -= 1;
      // Inside by a whole step on both sides: the slope is the scale. Elsewhere it is the scale or zero.
      bool moves = w_hat_by_formula(up, r, c) != at_rest && w_hat_by_formula(down, r, c) != at_rest;
      EXPECT_TRUE(got.v[i] == p.dw[i] * scale || (!moves && got.v[i] == 0));
    }
  }
}

TEST(Qdq, EveryLevelTakesTheScalarStep) {
  ThreadPool pool(2);
  for (const QdqScheme& scheme : schemes())
    for (const CpuFeatures& cpu : cpu_levels()) {
      Problem reference(scheme, 5, 300, 7), p(scheme, 5, 300, 7);
      for (size_t i = 0; i < p.dw.size(); i += 13) p.dw[i] = reference.dw[i] = 0.0f;  // sign(0) = 0
      Problem before = p;
      Gradients expected = backward(reference, 0.01f, 0.02f, {}), got = backward(p, 0.01f, 0.02f, cpu, &pool);
      EXPECT_EQ(got.v, expected.v);
      EXPECT_EQ(p.v, reference.v);
      for (size_t i = 0; i < p.v.size(); ++i) {
        float sign = static_cast<float>((expected.v[i] > 0) - (expected.v[i] < 0));
        ASSERT_EQ(p.v[i], before.v[i] - 0.01f * sign);
      }
      for (size_t g = 0; g < p.alpha.size(); ++g) {
        double terms = std::sqrt(static_cast<double>(scheme.group)) * (1 << scheme.bits) * 0.2;
        EXPECT_NEAR(got.alpha[g], expected.alpha[g], sum_tolerance(terms, scheme.group));
        EXPECT_NEAR(got.beta[g], expected.beta[g], sum_tolerance(terms, scheme.group));
        for (auto [after, start, d] : {std::tuple{p.alpha[g], before.alpha[g], got.alpha[g]},
                                       std::tuple{p.beta[g], before.beta[g], got.beta[g]}})
          EXPECT_EQ(after, limited(p, start) - 0.02f * static_cast<float>((d > 0) - (d < 0)));
      }
    }
}

TEST(Qdq, EqualExtremesShareTheGradient) {
  Problem p({4, 2, true}, 1, 2);
  p.w = {-0.5f, 0.5f};
  p.v = {0, 0};
  p.alpha = p.beta = {1.0f};
  p.dw = {1.0f, -1.0f};
  for (const CpuFeatures& cpu : cpu_levels()) {
    Gradients g = backward(p, 0, 0, cpu);
    EXPECT_NE(g.alpha[0], 0.0f);
    EXPECT_EQ(g.alpha[0], g.beta[0]);
    EXPECT_LT(forward(p, cpu).scale[0], 0.0f) << "a tie takes the negative scale";
  }
}

}  // namespace
}  // namespace quaver::kernels
