#include "nn/activation_quant.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "nn/tensor_bridge.h"

namespace quaver::nn {

namespace {

using Mode = ActivationQuant::Mode;

// The numbers of a small float: steps of 2^-mantissa_bits in each binade, of one size below the smallest
// normal.
struct FloatGrid {
  int mantissa_bits;
  double smallest_normal, largest;
};

constexpr FloatGrid kE4M3FNGrid{3, 0x1p-6, 448}, kE5M3Grid{3, 0x1p-14, 114688};

FloatGrid grid_of(Element element) {
  switch (element) {
    case Element::kE4M3FN:
      return kE4M3FNGrid;
    case Element::kE4M3FNUZ:
      return {3, 0x1p-7, 240};
    case Element::kE5M2:
      return {2, 0x1p-14, 57344};
    case Element::kE2M1:
      return {1, 1, 6};
    case Element::kE2M3:
      return {3, 1, 7.5};
    case Element::kE3M2:
      return {2, 0.25, 28};
    default:
      fail(ErrorKind::kInternal, "inputs can't be quantized to ", element_info(element).name);
  }
}

int largest_integer(Element element) { return (1 << (element_info(element).bits - 1)) - 1; }

double largest_code(const ActivationQuant& quant) {
  return element_info(quant.element).integer ? largest_integer(quant.element)
                                             : grid_of(quant.element).largest;
}

// A number on the tensor's own device: CUDA multiplies by the reciprocal of a host's number, and that rounds
// differently.
at::Tensor number(double value, const at::Tensor& like) { return at::full({}, value, like.options()); }

// The power of two at or below |x|, 0 for subnormal numbers, infinity for what is not finite.
at::Tensor binade(const at::Tensor& x) { return x.view(at::kInt).bitwise_and(0x7f800000).view(at::kFloat); }

at::Tensor binade_above(const at::Tensor& x) {
  at::Tensor below = binade(x);
  return at::where(below < x, below * 2, below);
}

// Half up, to so many bits after the leading one.
at::Tensor round_mantissa(const at::Tensor& x, int bits) {
  return (x.view(at::kInt) + (1 << (22 - bits))).view(at::kFloat);
}

at::Tensor round_to_grid(const at::Tensor& x, const FloatGrid& grid) {
  at::Tensor cut = x.clamp(-grid.largest, grid.largest);
  at::Tensor step = binade(cut).clamp_min(grid.smallest_normal) * std::ldexp(1.0, -grid.mantissa_bits);
  return (cut / step).round() * step;
}

at::Tensor round_to_codes(const at::Tensor& x, const ActivationQuant& quant) {
  if (!element_info(quant.element).integer) return round_to_grid(x, grid_of(quant.element));
  const int high = largest_integer(quant.element);
  return x.round().clamp(quant.narrow ? -high : -high - 1, high);
}

at::Tensor power_of_two(const at::Tensor& amax, const ActivationQuant& quant) {
  const double largest = largest_code(quant) * quant.super_scale;
  const at::Tensor a = amax * std::exp2(-std::floor(std::log2(largest)));
  const auto chosen = [&] {
    switch (quant.power_of_two) {
      case PowerOfTwo::kFloor:
        return binade(a);
      case PowerOfTwo::kRounded:
        return binade(round_mantissa(a, grid_of(quant.element).mantissa_bits));
      case PowerOfTwo::kRoundedToOneBit:
        return binade(round_mantissa(a, 1));
      case PowerOfTwo::kCeil:
        return binade_above(a);
      case PowerOfTwo::kFit:
        return binade_above(amax / number(largest, amax));
    }
    fail(ErrorKind::kInternal, "unknown rule for powers of two");
  }();
  return chosen.clamp_min(0x1p-127) * quant.super_scale;
}

// Infinities would be cut, and the group's own with them.
at::Tensor round_scale_to_grid(const at::Tensor& scale, const FloatGrid& grid) {
  return round_to_grid(scale, grid).masked_fill(scale.isinf(), std::numeric_limits<float>::infinity());
}

at::Tensor round_scale(const at::Tensor& scale, ScaleCodec codec) {
  switch (codec) {
    case ScaleCodec::kF32:
      return scale;
    case ScaleCodec::kF16:
      return scale.to(at::kHalf).to(at::kFloat);
    case ScaleCodec::kBF16:
      return scale.to(at::kBFloat16).to(at::kFloat);
    case ScaleCodec::kE4M3FN:
      return round_scale_to_grid(scale, kE4M3FNGrid);
    case ScaleCodec::kE5M3:
      return round_scale_to_grid(scale, kE5M3Grid);
    default:
      fail(ErrorKind::kInternal, "scales of inputs can't be stored as ", scale_codec_info(codec).name);
  }
}

// Where a group's scale comes out as zero, its values become zero under a huge one.
at::Tensor without_zeros(const at::Tensor& scale) { return scale.masked_fill(scale == 0, 0x1p126); }

// What rows of the input hold at most, from what this rank's columns of them hold.
at::Tensor over_ranks(const at::Tensor& most, const RankGroup* ranks) {  // [rows, 1]
  if (!ranks) return most;
  const std::vector<int64_t> ones(static_cast<size_t>(ranks->size()), 1);
  return ranks->all_gather(most, 1, ones).amax(1, /*keepdim=*/true);
}

// Rows that share a scale, or groups of them.
struct Rows {
  at::Tensor x;                      // [groups, group]
  int64_t groups_of_row = 1;         // among this rank's columns
  const RankGroup* ranks = nullptr;  // that hold more of each row

  // A group lies whole on its rank.
  const RankGroup* ranks_of_groups(const ActivationQuant& quant) const {
    return quant.group > 0 ? nullptr : ranks;
  }
};

// What the scales of groups are multiplied by: one number, or one for each group.
at::Tensor second_level(const at::Tensor& amax, const ActivationQuant& quant, const Rows& rows) {
  if (!quant.super_per_row) return number(quant.super_scale, amax);
  const at::Tensor of_row =
      over_ranks(amax.view({-1, rows.groups_of_row}).amax(1, /*keepdim=*/true), rows.ranks);
  const at::Tensor above = without_zeros(of_row / number(largest_code(quant) * kE4M3FNGrid.largest, amax));
  return above.expand({-1, rows.groups_of_row}).reshape({-1, 1});
}

at::Tensor symmetric_scale(const Rows& rows, const ActivationQuant& quant) {
  const at::Tensor amax = over_ranks(rows.x.abs().amax(-1, /*keepdim=*/true), rows.ranks_of_groups(quant));
  if (quant.scale == ScaleCodec::kE8M0) return power_of_two(amax, quant);
  const bool half_more = element_info(quant.element).integer && !quant.narrow;
  const at::Tensor first = amax / number(largest_code(quant) + (half_more ? 0.5 : 0), amax);
  if (quant.super_divisor != 0) {
    const at::Tensor divisor = number(quant.super_divisor, amax);
    return without_zeros(round_scale(divisor * first, quant.scale) / divisor);
  }
  const at::Tensor above = second_level(amax, quant, rows);
  return without_zeros(round_scale(first / above, quant.scale) * above);
}

// Zero always has a code of its own: the range is made to hold it.
at::Tensor with_zero_point(const Rows& all, const ActivationQuant& quant) {
  const at::Tensor& rows = all.x;
  const RankGroup* ranks = all.ranks_of_groups(quant);
  const int high = largest_integer(quant.element), low = -high - 1;
  const at::Tensor least = -over_ranks(-rows.amin(-1, true).clamp_max(0), ranks);
  const at::Tensor most = over_ranks(rows.amax(-1, true).clamp_min(0), ranks);
  const at::Tensor scale = without_zeros((most - least) / number(high - low, rows));
  const at::Tensor zero = (low - (least / scale).round()).clamp(low, high);
  return (((rows / scale).round() + zero).clamp(low, high) - zero) * scale;
}

at::Tensor quantize_static(const at::Tensor& x, const ActivationQuant& quant) {
  const at::Tensor scale = number(quant.static_scale, x);
  if (!element_info(quant.element).integer) return round_to_codes(x / scale, quant) * scale;
  const int zero = quant.static_zero;
  return (round_to_codes((x / scale).round() + zero, quant) - zero) * scale;
}

at::Tensor quantize_rows(const Rows& rows, const ActivationQuant& quant) {  // -> [groups, group]
  if (!quant.sym) return with_zero_point(rows, quant);
  const at::Tensor scale = symmetric_scale(rows, quant);
  return round_to_codes(rows.x / scale, quant) * scale;
}

at::Tensor quantize_dynamic(const at::Tensor& x, const ActivationQuant& quant, const RankGroup* ranks) {
  const int64_t in = x.size(-1);
  if (quant.group <= 0) {
    const int64_t width = quant.group == 0 ? x.numel() : in;
    return quantize_rows({.x = x.reshape({-1, width}), .ranks = ranks}, quant).view(x.sizes());
  }
  const int64_t rest = in % quant.group;
  const at::Tensor filled = rest == 0 ? x : at::constant_pad_nd(x, {0, quant.group - rest});
  const int64_t groups_of_row = filled.size(-1) / quant.group;
  const at::Tensor y =
      quantize_rows({filled.reshape({-1, quant.group}), groups_of_row, ranks}, quant).view(filled.sizes());
  return rest == 0 ? y : y.narrow(-1, 0, in);
}

// Columns with outliers pass; outliers don't count for the scales.
at::Tensor quantize_but_outliers(const at::Tensor& x, const ActivationQuant& quant, const RankGroup* ranks) {
  const at::Tensor outliers = x.abs() >= quant.outlier_threshold;
  const at::Tensor columns = outliers.reshape({-1, x.size(-1)}).any(0);  // [in]
  return at::where(columns, x, quantize_dynamic(x.masked_fill(outliers, 0), quant, ranks));
}

}  // namespace

at::Tensor quantize_dequantize(const at::Tensor& x, const ActivationQuant& quant, const RankGroup* ranks) {
  if (quant.mode == Mode::kNone || x.numel() == 0) return x;
  const at::Tensor wide = x.to(at::kFloat).contiguous();
  if (quant.mode == Mode::kStatic) return quantize_static(wide, quant).to(x.scalar_type());
  const at::Tensor y = quant.outlier_threshold > 0 ? quantize_but_outliers(wide, quant, ranks)
                                                   : quantize_dynamic(wide, quant, ranks);
  return y.to(x.scalar_type());
}

std::string describe(const ActivationQuant& quant) {
  if (quant.mode == Mode::kNone) return "not quantized";
  const std::string name = cat(element_info(quant.element).name, quant.sym ? "" : " asym");
  if (quant.mode == Mode::kStatic) return name + " static";
  if (quant.group == 0) return name + " per tensor";
  const std::string group = quant.group < 0 ? " per token" : cat(" g", quant.group);
  return cat(name, group, quant.super_per_row ? " under a scale per token" : "");
}

InputQuant::InputQuant(const ActivationQuant& quant, const std::vector<float>& multiplier, at::Device device,
                       const RankGroup* ranks)
    : quant_(quant), ranks_(ranks) {
  if (multiplier.empty()) return;
  const auto in = static_cast<int64_t>(multiplier.size());
  multiplier_ = tensor_over({DType::kF32, {in}, Buffer::copy_of(multiplier)}, "input multiplier").to(device);
}

at::Tensor InputQuant::apply(const at::Tensor& x) const {
  at::Tensor scaled = multiplier_.defined() ? x.to(at::kFloat) * multiplier_ : x;
  if (!active()) return scaled.to(x.scalar_type());
  at::Tensor y = quantize_dequantize(scaled.detach(), quant_, ranks_);
  if (c10::GradMode::is_enabled() && scaled.requires_grad()) y = y + (scaled - scaled.detach());
  return y.to(x.scalar_type());
}

bool InputQuant::agrees_with(const InputQuant& other) const {
  return !multiplier_.defined() && !other.multiplier_.defined() && quant_ == other.quant_ &&
         ranks_ == other.ranks_;
}

}  // namespace quaver::nn
