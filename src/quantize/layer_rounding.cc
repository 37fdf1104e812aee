#include "quantize/layer_rounding.h"

#include <ATen/TensorOperators.h>

#include <span>

#include "numerics/e2m1.h"
#include "numerics/e4m3fn.h"
#include "quantize/opt_rtn.h"
#include "quantize/round_to_nearest.h"

namespace quaver::quantize {
namespace {

QuantWeight search_floats(const at::Tensor& weight, const TunedLayer& layer) {
  std::unique_ptr<TunableWeight> tunable = make_tunable(weight, layer.scheme, layer.shared_amax);
  tunable->search_ranges(layer.importance);
  return tunable->quantized();
}

QuantWeight search_integers(const at::Tensor& dense, const TunedLayer& layer, const std::string& name) {
  at::Tensor weight = dense.to(at::kCPU, at::kFloat).contiguous();
  std::span<const float> values(weight.const_data_ptr<float>(), static_cast<size_t>(weight.numel()));
  RoundingProblem problem = integer_problem(weight.size(0), weight.size(1), layer.scheme);
  problem.what = name;
  at::Tensor sums = layer.importance.to(at::kCPU).contiguous();
  std::span<const float> importance(sums.const_data_ptr<float>(), static_cast<size_t>(sums.numel()));
  return opt_rtn(values, importance, problem);
}

}  // namespace

QuantWeight round_layer(const TunedLayer& layer, RoundingMethod method, const std::string& name) {
  const at::Tensor weight = layer.layer.linear->dense_weight();
  const bool integers = layer.scheme.data_type == DataType::kInt;
  if (method == RoundingMethod::kPlain || (integers && !layer.importance.defined()))
    return round_to_nearest(weight, layer.scheme, layer.shared_amax, name);
  return integers ? search_integers(weight, layer, name) : search_floats(weight, layer);
}

bool has_static_input_scale(const Scheme& scheme) {
  const ActivationScheme& input = scheme.activation;
  return scheme.bits < 16 && input.bits < 16 && (!input.dynamic || input.data_type == DataType::kNvFp);
}

void set_input_scale(ActivationQuant& input, float largest) {
  if (!(largest > 0)) largest = 1.0f;
  if (input.mode == ActivationQuant::Mode::kStatic) input.static_scale = largest / kE4M3FNMax;
  if (input.mode == ActivationQuant::Mode::kDynamic && input.scale == ScaleCodec::kE4M3FN) {
    input.super_divisor = kE4M3FNMax * kE2M1Max / largest;
    input.super_scale = 1.0f / input.super_divisor;
  }
}

}  // namespace quaver::quantize
