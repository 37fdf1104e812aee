#include "quantize/fake_quantize.h"

#include <ATen/core/grad_mode.h>

namespace quaver::quantize {

DType kernel_dtype(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 ? DType::kBF16 : DType::kF32;
}

kernels::QdqArgs kernel_args(const QdqTensors& tensors, const Scheme& scheme) {
  return {.scheme = {.bits = scheme.bits,
                     .group = tensors.group,
                     .symmetric = scheme.sym,
                     .zero_from_one = scheme.zero_from_one,
                     .range_limit = kRangeLimit},
          .rows = tensors.weight.size(0),
          .cols = tensors.weight.size(1),
          .w = tensors.weight.const_data_ptr(),
          .w_dtype = kernel_dtype(tensors.weight),
          .v = tensors.value.data_ptr(),
          .v_dtype = DType::kF32,
          .alpha = tensors.alpha.data_ptr<float>(),
          .beta = tensors.beta.data_ptr<float>(),
          .pool = &global_thread_pool()};
}

void fake_quantize(const QdqTensors& tensors, const Scheme& scheme, at::Tensor& fake) {
  if (tensors.weight.is_cpu()) {
    kernels::qdq_forward(kernel_args(tensors, scheme),
                         {.w_hat = fake.data_ptr(), .dtype = kernel_dtype(fake)});
  } else {
    at::NoGradGuard no_grad;
    fake.copy_(qdq_forward_aten(tensors, scheme).fake);
  }
}

}  // namespace quaver::quantize
