#include "nn/kv_scaling.h"

#include <ATen/TensorOperators.h>

#include <vector>

#include "numerics/e4m3fn.h"

namespace quaver::nn {
namespace {

at::Tensor over_heads(const at::Tensor& scales, int64_t dimensions) {
  std::vector<int64_t> shape(static_cast<size_t>(dimensions), 1);
  shape[1] = -1;
  return scales.view(shape);
}

}  // namespace

at::Tensor kv_codes(const at::Tensor& x, const at::Tensor& scales) {
  at::Tensor values = x.to(at::kFloat);
  if (scales.defined()) values = values / over_heads(scales, values.dim());
  return values.clamp(-kE4M3FNMax, kE4M3FNMax).to(at::kFloat8_e4m3fn);
}

at::Tensor kv_values(const at::Tensor& codes, const at::Tensor& scales, at::ScalarType dtype) {
  if (!scales.defined()) return codes.to(dtype);
  return (codes.to(at::kFloat) * over_heads(scales, codes.dim())).to(dtype);
}

at::Tensor round_kv(const at::Tensor& x, const at::Tensor& scales) {
  at::Tensor plain = x.detach(), rounded = kv_values(kv_codes(plain, scales), scales, x.scalar_type());
  return x.requires_grad() ? x + (rounded - plain) : rounded;
}

}  // namespace quaver::nn
