// Small floats under tuning: V and beta.
#pragma once

#include "quantize/tunable_weight.h"

namespace quaver::quantize {

// With amax the largest magnitude of a tile, beta in [0, kRangeLimit], m = beta amax, q the nearest element
// of w / s + V, ties to the even code, cut at the largest element M, w_hat = s q:
//   mx_fp: s = 2^clamp(floor(log2 m) - emax, -127, 127), emax = 2 (e2m1, M = 6) or 8 (e4m3fn, M = 448);
//   nv_fp: g = 448 * 6 / (the weight's or the fused layers' amax), s = e4m3fn(min(g m / 6, 448)) / g;
//   fp: s = bf16(max(m / 448, 1 / (448 * 512))), in blocks in fp32.
// Gradients: dV = dw s and ds = sum dw (q - w / s) for elements within the range, dw q for those cut; s grows
// with beta and the roundings of s pass gradients. Sources: AutoRound's data types; OCP Microscaling Formats
// 1.0. V is [out, in] float32. Plain ATen: about ten times the fused integer kernel's time.
class FloatTunable : public TunableWeight {
 public:
  FloatTunable(at::Tensor weight, const Scheme& scheme, float shared_amax);

  // What fake_quantize() gives under this V and beta: float32 [out, in].
  at::Tensor fake_under(const at::Tensor& value, const at::Tensor& beta) const;

  const at::Tensor& fake_quantize() override;
  void search_ranges(const at::Tensor& importance) override;
  void step(const at::Tensor& fake_gradient, float lr, float minmax_lr) override;
  QuantWeight quantized() const override;

 private:
  struct Rounded;
  at::Tensor scale_of(const at::Tensor& amax, const at::Tensor& beta) const;  // per tile, what codes multiply
  at::Tensor stored_scale(const at::Tensor& amax, const at::Tensor& beta) const;  // nv_fp: without 1 / g
  Rounded round(const at::Tensor& weight, const at::Tensor& value, const at::Tensor& scale) const;
  Scales stored_scales() const;

  at::Tensor weight_;  // [out, in]
  Scheme scheme_;
  WeightScheme stored_;
  Extent2d tile_;
  float largest_;    // M
  float global_;     // g of nv_fp, else 1
  at::Tensor amax_;  // [tile rows, tile columns]
  at::Tensor value_;
  at::Tensor beta_;  // as amax_
  at::Tensor fake_;  // [out, in]
};

}  // namespace quaver::quantize
