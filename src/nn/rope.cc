#include "nn/rope.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/where.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/thread_pool.h"
#include "kernels/rope/rope.h"
#include "kernels/rope/rope_bf16.h"
#include "nn/bf16_pointer.h"
#include "nn/kernel_path.h"

namespace quaver::nn {

namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// theta ^ (2 j / dim), float32 throughout so that the frequencies are those that models were trained with.
at::Tensor wavelength_factors(const RopeSpec& spec) {
  return at::pow(spec.theta, at::arange(0, spec.dim, 2, at::kFloat) / static_cast<double>(spec.dim));
}

at::Tensor scaled_by_parts(const at::Tensor& inverse, const RopeScaling& s) {
  at::Tensor wavelength = kTwoPi / inverse;
  at::Tensor blend =
      (s.original_max_positions / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  at::Tensor blended = (1 - blend) * inverse / s.factor + blend * inverse;
  at::Tensor is_long = wavelength > s.original_max_positions / s.low_freq_factor;
  at::Tensor is_short = wavelength < s.original_max_positions / s.high_freq_factor;
  return at::where(is_long, inverse / s.factor, at::where(is_short, inverse, blended));
}

// The dimension whose wave turns `rotations` times over the original context.
double yarn_dimension(const RopeSpec& spec, double rotations) {
  double turns = spec.scaling.original_max_positions / (rotations * kTwoPi);
  return static_cast<double>(spec.dim) * std::log(turns) / (2 * std::log(spec.theta));
}

at::Tensor yarn(const RopeSpec& spec) {
  const RopeScaling& s = spec.scaling;
  double low = yarn_dimension(spec, s.beta_fast), high = yarn_dimension(spec, s.beta_slow);
  if (s.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, static_cast<double>(spec.dim - 1));
  if (low == high) high += 0.001;
  at::Tensor ramp = ((at::arange(spec.dim / 2, at::kFloat) - low) / (high - low)).clamp(0, 1);
  at::Tensor keep = 1 - ramp, factors = wavelength_factors(spec);
  return 1.0 / (s.factor * factors) * (1 - keep) + 1.0 / factors * keep;
}

at::Tensor scaled_inverse_frequencies(const RopeSpec& spec) {
  if (spec.scaling.kind == RopeScaling::Kind::kYarn) return yarn(spec);
  at::Tensor inverse = 1.0 / wavelength_factors(spec);
  if (spec.scaling.kind == RopeScaling::Kind::kLinear) return inverse / spec.scaling.factor;
  if (spec.scaling.kind == RopeScaling::Kind::kLlama3) return scaled_by_parts(inverse, spec.scaling);
  return inverse;
}

}  // namespace

RopeTable::RopeTable(const RopeSpec& spec, at::Device device)
    : inverse_frequencies_(scaled_inverse_frequencies(spec).to(device)),
      attention_factor_(spec.scaling.kind == RopeScaling::Kind::kYarn ? spec.scaling.attention_factor : 1.0) {
}

RopeAngles RopeTable::angles(const at::Tensor& positions, at::ScalarType dtype) const {
  at::Tensor angle = positions.to(at::kFloat).unsqueeze(1) * inverse_frequencies_;
  at::Tensor cos = at::cos(angle), sin = at::sin(angle);
  if (attention_factor_ != 1.0) cos = cos * attention_factor_, sin = sin * attention_factor_;
  return {cos.to(dtype), sin.to(dtype)};
}

const RopeAngles& RopeCache::angles(const RopeTable& table, const at::Tensor& positions,
                                    at::ScalarType dtype) {
  for (const auto& [known, angles] : entries_)
    if (known == &table) return angles;
  return entries_.emplace_back(&table, table.angles(positions, dtype)).second;
}

namespace {

at::Tensor rope_aten(const at::Tensor& x, const RopeAngles& angles) {
  int64_t half = angles.cos.size(-1), head_dim = x.size(-1);
  at::Tensor cos = angles.cos.unsqueeze(1), sin = angles.sin.unsqueeze(1);
  at::Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  at::Tensor turned_a = a * cos - b * sin, turned_b = b * cos + a * sin;
  at::Tensor turned = at::cat({turned_a, turned_b}, -1).to(x.scalar_type());  // angles may be wider
  if (2 * half == head_dim) return turned;
  return at::cat({turned, x.narrow(-1, 2 * half, head_dim - 2 * half)}, -1);
}

// The kernel looks rows of tables up by position; the angles are per token, so token t's row is t.
at::Tensor rope_kernel(const at::Tensor& x, const RopeAngles& angles) {
  at::Tensor y = x.clone(at::MemoryFormat::Contiguous);
  at::Tensor rows = at::arange(x.size(0), at::kLong);
  at::Tensor cos = angles.cos.contiguous(), sin = angles.sin.contiguous();
  kernels::apply_rope({.x = y.mutable_data_ptr<float>(),
                       .token_stride = x.size(1) * x.size(2),
                       .tokens = x.size(0),
                       .heads = x.size(1),
                       .head_dim = x.size(2),
                       .rotary_dim = 2 * cos.size(1),
                       .cos = cos.const_data_ptr<float>(),
                       .sin = sin.const_data_ptr<float>(),
                       .positions = rows.const_data_ptr<int64_t>(),
                       .pool = &global_thread_pool()});
  return y;
}

struct Bf16Rope : torch::autograd::Function<Bf16Rope> {
  static at::Tensor turned(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                           bool backwards) {
    bool heads_together = x.stride(2) == 1 && x.stride(1) == x.size(2);
    at::Tensor heads = heads_together ? x : x.contiguous();
    at::Tensor y = at::empty(x.sizes(), x.options());
    kernels::apply_rope_bf16({.x = bf16_bits(heads),
                              .x_stride = heads.stride(0),
                              .y = mutable_bf16_bits(y),
                              .tokens = x.size(0),
                              .heads = x.size(1),
                              .head_dim = x.size(2),
                              .rotary_dim = 2 * cos.size(1),
                              .cos = cos.const_data_ptr<float>(),
                              .sin = sin.const_data_ptr<float>(),
                              .backwards = backwards,
                              .pool = &global_thread_pool()});
    return y;
  }

  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& cos, const at::Tensor& sin) {
    context->save_for_backward({cos, sin});
    return turned(x, cos, sin, false);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    torch::autograd::variable_list saved = context->get_saved_variables();
    return {turned(gradients[0], saved[0], saved[1], true), {}, {}};
  }
};

}  // namespace

at::Tensor apply_rope(const at::Tensor& x, const RopeAngles& angles) {
  if (kernels_apply(x)) return rope_kernel(x, angles);
  if (!bf16_kernels_apply(x)) return rope_aten(x, angles);
  return Bf16Rope::apply(x, angles.cos.to(at::kFloat).contiguous(), angles.sin.to(at::kFloat).contiguous());
}

at::Tensor apply_interleaved_rope(const at::Tensor& x, const RopeAngles& angles) {
  return apply_rope(x.unflatten(-1, {-1, 2}).transpose(-1, -2).flatten(-2), angles);
}

}  // namespace quaver::nn
