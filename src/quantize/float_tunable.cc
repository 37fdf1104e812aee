#include "quantize/float_tunable.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/log2.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/round.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "numerics/e2m1.h"
#include "numerics/e4m3fn.h"
#include "quantize/qdq_aten.h"
#include "quantize/range_search.h"
#include "quantize/tiles.h"

namespace quaver::quantize {
namespace {

constexpr float kSmallestFpScale = 1.0f / (448.0f * 512.0f);

// Nearest e2m1 of values within its range, as a float; steps of 0.5, 1 and 2.
at::Tensor to_e2m1(const at::Tensor& values) {
  at::Tensor size = values.abs();
  at::Tensor step = at::where(size < 2, 0.5, at::where(size < 4, 1.0, 2.0)).to(at::kFloat);
  return at::round(values / step) * step;
}

at::Tensor to_e4m3(const at::Tensor& values) { return values.to(at::kFloat8_e4m3fn).to(at::kFloat); }

at::Tensor e2m1_codes(const at::Tensor& elements) {
  at::Tensor size = elements.abs();
  at::Tensor code = at::where(size < 2, size * 2, at::where(size < 4, size + 2, size / 2 + 4)).to(at::kByte);
  return at::where(elements < 0, code + 8, code);
}

at::Tensor e4m3_codes(const at::Tensor& elements) { return elements.to(at::kFloat8_e4m3fn).view(at::kByte); }

// The beta under which the power of two below beta amax stays the same for the longest way up and down. Near
// its end a tuning step would halve or double the scale of the whole tile.
at::Tensor middle_of_power(const at::Tensor& amax, const at::Tensor& beta) {
  at::Tensor middle = (1.5 * at::exp2(at::floor(at::log2(amax * beta))) / amax).clamp_max(kRangeLimit);
  return at::where(amax > 0, middle, beta);
}

Buffer host_bytes(const at::Tensor& tensor) {
  at::Tensor host = tensor.to(at::kCPU).contiguous();
  return Buffer::copy_of(std::span(static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()));
}

}  // namespace

// All tiled: [tile rows, rows, tile columns, columns] float32.
struct FloatTunable::Rounded {
  at::Tensor ratio;   // w / s + V
  at::Tensor inside;  // bool: not cut
  at::Tensor element;
};

FloatTunable::FloatTunable(at::Tensor weight, const Scheme& scheme, float shared_amax)
    : weight_(std::move(weight)),
      scheme_(scheme),
      stored_(stored_scheme(scheme)),
      tile_(tile_of(weight_, scheme)),
      largest_(stored_.element == Element::kE2M1 ? kE2M1Max : kE4M3FNMax),
      global_(1.0f),
      amax_(tiled(weight_.detach().to(at::kFloat).abs(), tile_).amax({1, 3})),
      value_(at::zeros({weight_.size(0), weight_.size(1)}, amax_.options())),
      beta_(at::ones_like(amax_)),
      fake_(at::empty_like(weight_).requires_grad_(true)) {
  if (scheme.data_type != DataType::kNvFp) return;
  float amax = shared_amax > 0 ? shared_amax : amax_.max().item<float>();
  if (amax > 0) global_ = kE4M3FNMax * kE2M1Max / amax;
}

at::Tensor FloatTunable::stored_scale(const at::Tensor& amax, const at::Tensor& beta) const {
  at::Tensor reach = amax * beta.clamp(0, kRangeLimit);
  if (scheme_.data_type == DataType::kMxFp) {
    float emax = std::floor(std::log2(largest_));
    at::Tensor exponent = at::floor(at::log2(reach)) - emax;
    exponent = at::where(reach > 0, exponent, at::full_like(exponent, 1 - emax)).clamp(-127, 127);
    return at::exp2(exponent);
  }
  if (scheme_.data_type == DataType::kNvFp)
    return to_e4m3((reach * global_ / largest_).clamp_max(kE4M3FNMax));
  at::Tensor scale = (reach / largest_).clamp_min(kSmallestFpScale);
  return stored_.scale == ScaleCodec::kBF16 ? scale.to(at::kBFloat16).to(at::kFloat) : scale;
}

at::Tensor FloatTunable::scale_of(const at::Tensor& amax, const at::Tensor& beta) const {
  at::Tensor stored = stored_scale(amax, beta);
  return scheme_.data_type == DataType::kNvFp ? stored / global_ : stored;
}

FloatTunable::Rounded FloatTunable::round(const at::Tensor& weight, const at::Tensor& value,
                                          const at::Tensor& scale) const {
  at::Tensor divisor = over_tiles(at::where(scale > 0, scale, at::full_like(scale, INFINITY)));
  Rounded r;
  r.ratio = tiled(weight.to(at::kFloat), tile_) / divisor + tiled(value, tile_);
  r.inside = r.ratio.abs() <= largest_;
  at::Tensor cut = r.ratio.clamp(-largest_, largest_);
  r.element = stored_.element == Element::kE2M1 ? to_e2m1(cut) : to_e4m3(cut);
  return r;
}

const at::Tensor& FloatTunable::fake_quantize() {
  at::NoGradGuard no_grad;
  fake_.copy_(fake_under(value_, beta_));
  return fake_;
}

at::Tensor FloatTunable::fake_under(const at::Tensor& value, const at::Tensor& beta) const {
  at::Tensor scale = scale_of(amax_, beta);
  at::Tensor fake = round(weight_, value, scale).element * over_tiles(scale);
  return untiled(fake, {weight_.size(0), weight_.size(1)});
}

void FloatTunable::search_ranges(const at::Tensor& importance) {
  at::NoGradGuard no_grad;
  beta_.copy_(
      quantize::search_ranges(weight_, tile_, importance, [this](int64_t first, int64_t count, float ratio) {
        int64_t tiles = (count + tile_.rows - 1) / tile_.rows;
        at::Tensor amax = amax_.narrow(0, first / tile_.rows, tiles);
        at::Tensor scale = scale_of(amax, at::full_like(amax, ratio));
        Rounded r = round(weight_.narrow(0, first, count), value_.narrow(0, first, count), scale);
        return untiled(r.element * over_tiles(scale), {count, weight_.size(1)});
      }));
  if (scheme_.data_type == DataType::kMxFp) beta_.copy_(middle_of_power(amax_, beta_));
}

void FloatTunable::step(const at::Tensor& fake_gradient, float lr, float minmax_lr) {
  at::NoGradGuard no_grad;
  beta_.clamp_(0, kRangeLimit);
  at::Tensor scale = scale_of(amax_, beta_);
  Rounded r = round(weight_, value_, scale);
  at::Tensor gradient = tiled(fake_gradient.to(at::kFloat), tile_);
  at::Tensor share = r.ratio - tiled(value_, tile_);
  at::Tensor by_scale = (gradient * (r.element - r.inside * share)).sum({1, 3});
  Extent2d shape{weight_.size(0), weight_.size(1)};
  value_.sub_(untiled(gradient * over_tiles(scale) * r.inside, shape).sign(), lr);
  beta_.sub_((by_scale * scale).sign(), minmax_lr);
}

Scales FloatTunable::stored_scales() const {
  at::Tensor stored = stored_scale(amax_, beta_);
  ScaleCodec codec = stored_.scale.value_or(ScaleCodec::kF32);
  switch (codec) {
    case ScaleCodec::kE8M0:
      return {.codec = codec,
              .data = host_bytes((at::log2(stored).round() + 127).to(at::kByte)),
              .super = nullptr};
    case ScaleCodec::kBF16:
      return {.codec = codec, .data = host_bytes(stored.to(at::kBFloat16)), .super = nullptr};
    case ScaleCodec::kE4M3FN: {
      auto super = std::make_unique<Scales>();
      super->data = Buffer::copy_of(std::vector<float>{1.0f / global_});
      super->divisor = global_;
      return {.codec = codec, .data = host_bytes(e4m3_codes(stored)), .super = std::move(super)};
    }
    default:
      return {.codec = ScaleCodec::kF32, .data = host_bytes(stored), .super = nullptr};
  }
}

QuantWeight FloatTunable::quantized() const {
  at::NoGradGuard no_grad;
  Extent2d shape{weight_.size(0), weight_.size(1)};
  at::Tensor element = untiled(round(weight_, value_, scale_of(amax_, beta_)).element, shape);
  QuantWeight quant;
  quant.element = stored_.element;
  quant.shape = shape;
  quant.group = tile_;
  quant.codes = packed_codes(stored_.element == Element::kE2M1 ? e2m1_codes(element) : e4m3_codes(element),
                             element_info(stored_.element).bits);
  quant.scale = stored_scales();
  return quant;
}

}  // namespace quaver::quantize
