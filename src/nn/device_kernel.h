// CUDA kernels as nn calls them: when they apply, for which type, and on which stream.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>

#include "kernels/device.h"

namespace quaver::nn {

// True for float32, float16 and bfloat16 on a CUDA device, in a build with kernels, where no gradient is
// asked for through x or the others and no AtenOnly scope is open.
bool device_kernels_apply(const at::Tensor& x, std::initializer_list<const at::Tensor*> others = {});

kernels::DeviceFloat device_float(at::ScalarType dtype);  // of the three above
void* current_stream(at::Device device);                  // a cudaStream_t

}  // namespace quaver::nn
