// Group normalization of pictures in a CUDA device's memory whose pixels hold their channels side by side.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device.h"

namespace quaver::kernels {

// Device memory, borrowed, aligned to 16 bytes.
struct DeviceGroupNorm {
  DeviceFloat type = DeviceFloat::kBF16;          // of x, y, weight and bias
  const void* x = nullptr;                        // [batch, pixels, channels]
  void* y = nullptr;                              // the same
  const void *weight = nullptr, *bias = nullptr;  // [channels]
  int64_t batch = 0, pixels = 0, channels = 0, groups = 0;
  float epsilon = 0;
  bool silu = false;           // y = silu(the norm)
  float* workspace = nullptr;  // group_norm_workspace_floats of them
};

// Multiples of 8 up to 2048.
bool device_group_norm_takes(int64_t channels);

size_t group_norm_workspace_floats(const DeviceGroupNorm& args);

// Means and variances from float32 sums about a pixel's own values, joined in float64, so that large means
// cost no precision; each value is rounded once. The same bits on every run. `stream` is a cudaStream_t.
void group_norm_on_device(const DeviceGroupNorm& args, void* stream);

}  // namespace quaver::kernels
