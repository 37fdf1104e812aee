#include "quantize/qdq_aten.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/round.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

namespace quaver::quantize {
namespace {

constexpr float kMinScale = 1e-5f;  // as an f16 value: rounded below

// [out, in] -> [out, groups, group], padded with zeros.
at::Tensor grouped(const at::Tensor& matrix, int64_t group) {
  int64_t groups = (matrix.size(1) + group - 1) / group;
  at::Tensor padded = at::constant_pad_nd(matrix.to(at::kFloat), {0, groups * group - matrix.size(1)});
  return padded.view({matrix.size(0), groups, group});
}

at::Tensor ungrouped(const at::Tensor& groups, int64_t in) {
  return groups.reshape({groups.size(0), -1}).narrow(1, 0, in);
}

at::Tensor round_to_f16(const at::Tensor& values) { return values.to(at::kHalf).to(at::kFloat); }

// All [out, groups, 1] but the last two, which are [out, groups, group].
struct Terms {
  at::Tensor low, high;     // m- and m+
  at::Tensor below, above;  // a = -m- alpha, c = m+ beta
  at::Tensor scale, zero;   // zero: 0 when symmetric
  at::Tensor floored;       // where |s| met its floor
  at::Tensor steps;         // asymmetric: what the range is divided by
  at::Tensor weight, code;  // code is unclamped
  float code_min = 0, code_max = 0;
};

Terms terms_of(const QdqTensors& in, const Scheme& scheme) {
  Terms t;
  t.weight = grouped(in.weight, in.group);
  t.low = t.weight.amin(-1, true).clamp_max(0);
  t.high = t.weight.amax(-1, true).clamp_min(0);
  t.below = -t.low * in.alpha.clamp(0, kRangeLimit).unsqueeze(-1);
  t.above = t.high * in.beta.clamp(0, kRangeLimit).unsqueeze(-1);
  float floor = static_cast<float>(c10::Half(kMinScale));
  float levels = static_cast<float>(1 << scheme.bits);
  if (scheme.sym) {
    at::Tensor raw = round_to_f16(at::where(t.above < t.below, t.below, -t.above) / (levels / 2));
    t.floored = raw.abs() < floor;
    t.scale =
        at::where(t.floored, at::where(raw < 0, at::full_like(raw, -floor), at::full_like(raw, floor)), raw);
    t.zero = at::zeros_like(t.scale);
    t.code_min = -levels / 2;
    t.code_max = levels / 2 - 1;
  } else {
    at::Tensor raw = round_to_f16((t.above + t.below) / (levels - 1));
    t.scale = raw.clamp_min(floor);
    t.zero = at::round(t.below / t.scale);
    t.steps = at::full_like(raw, levels - 1);
    if (scheme.zero_from_one) {
      t.steps = at::where(t.zero < 1, t.steps - 1, t.steps);
      raw = round_to_f16((t.above + t.below) / t.steps);
      t.scale = raw.clamp_min(floor);
      t.zero = t.zero.clamp_min(1);
    }
    t.floored = raw < floor;
    t.code_min = 0;
    t.code_max = levels - 1;
  }
  t.code = at::round(t.weight / t.scale + grouped(in.value, in.group)) + t.zero;
  return t;
}

}  // namespace

QdqResult qdq_forward_aten(const QdqTensors& in, const Scheme& scheme) {
  at::NoGradGuard no_grad;
  Terms t = terms_of(in, scheme);
  at::Tensor code = at::clamp(t.code, t.code_min, t.code_max);
  int64_t width = in.weight.size(1);
  float middle = scheme.sym ? -t.code_min : 0.0f;
  return {.fake = ungrouped(t.scale * (code - t.zero), width).to(in.weight.scalar_type()).contiguous(),
          .codes = ungrouped(code + middle, width).to(at::kByte).contiguous(),
          .scale = t.scale.squeeze(-1).contiguous(),
          .zero = (t.zero.squeeze(-1) + middle).contiguous()};
}

QdqGradients qdq_backward_aten(const QdqTensors& in, const Scheme& scheme, const at::Tensor& fake_gradient) {
  at::NoGradGuard no_grad;
  Terms t = terms_of(in, scheme);
  at::Tensor upstream = grouped(fake_gradient, in.group);
  at::Tensor inside = ((t.code >= t.code_min) & (t.code <= t.code_max)).to(at::kFloat);
  at::Tensor code = at::clamp(t.code, t.code_min, t.code_max);
  at::Tensor by_scale = (upstream * (code - t.zero - inside * t.weight / t.scale)).sum(-1, true);
  float levels = static_cast<float>(1 << scheme.bits);
  at::Tensor alive = at::logical_not(t.floored).to(at::kFloat);
  at::Tensor dalpha, dbeta;
  if (scheme.sym) {
    // s = +-max(a, c) / M; equal a and c share the gradient.
    at::Tensor sign = at::where(t.above < t.below, at::ones_like(t.scale), -at::ones_like(t.scale));
    at::Tensor tie = (t.above == t.below).to(at::kFloat) * 0.5f;
    at::Tensor per_extreme = by_scale * alive * sign / (levels / 2);
    dalpha = per_extreme * ((t.above < t.below).to(at::kFloat) + tie) * -t.low;
    dbeta = per_extreme * ((t.above > t.below).to(at::kFloat) + tie) * t.high;
  } else {
    // z = -m- alpha / s moves only the codes that the clamp holds.
    at::Tensor moves = (t.steps == levels - 1).to(at::kFloat);
    at::Tensor by_zero = (upstream * t.scale * (inside - 1)).sum(-1, true) * moves;
    at::Tensor total = (by_scale - by_zero * t.below / t.scale.square()) * alive / t.steps;
    dalpha = total * -t.low + by_zero * -t.low / t.scale;
    dbeta = total * t.high;
  }
  return {.value = ungrouped(upstream * t.scale * inside, in.weight.size(1)).contiguous(),
          .alpha = dalpha.squeeze(-1),
          .beta = dbeta.squeeze(-1)};
}

}  // namespace quaver::quantize
