#include "nn/device_kernel.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/GradMode.h>

#include "nn/kernel_path.h"

namespace quaver::nn {

bool device_kernels_apply(const at::Tensor& x, std::initializer_list<const at::Tensor*> others) {
  const at::ScalarType dtype = x.scalar_type();
  const bool known = dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16;
  if (!known || !x.is_cuda() || !kernels::device_kernels_built() || !kernels_allowed()) return false;
  if (!c10::GradMode::is_enabled()) return true;
  for (const at::Tensor* other : others)
    if (other->defined() && other->requires_grad()) return false;
  return !x.requires_grad();
}

kernels::DeviceFloat device_float(at::ScalarType dtype) {
  if (dtype == at::kHalf) return kernels::DeviceFloat::kF16;
  return dtype == at::kBFloat16 ? kernels::DeviceFloat::kBF16 : kernels::DeviceFloat::kF32;
}

void* current_stream(at::Device device) {
  return at::accelerator::getCurrentStream(device.index()).native_handle();
}

}  // namespace quaver::nn
