// Adaptive normalization in a CUDA device's memory, one pass over the rows each.
#pragma once

#include <cstdint>

#include "kernels/device.h"

namespace quaver::kernels {

// Rows of several batch entries, whose shifts, scales and gates are rows of their own. Device memory,
// borrowed, aligned to 16 bytes; `stream` below is a cudaStream_t.
struct DeviceModulation {
  DeviceFloat type = DeviceFloat::kBF16;  // of all values
  int64_t batch = 0, tokens = 0, width = 0;
  const void* x = nullptr;       // [batch, tokens, width], contiguous
  void* y = nullptr;             // the same
  int64_t condition_stride = 0;  // from one batch entry's row to the next in what follows
};

// Widths that the kernels take: multiples of 8 up to 32768.
bool device_modulation_takes(int64_t width);

// y = (x - mean) / sqrt(variance + epsilon) * (1 + scale) + shift in float32, rounded once.
struct DeviceModulatedNorm {
  DeviceModulation rows;
  const void* shift = nullptr;  // [batch, width]
  const void* scale = nullptr;  // the same
  float epsilon = 0;
};
void modulated_norm_on_device(const DeviceModulatedNorm& args, void* stream);

// y = x + gate * added in float32, rounded once.
struct DeviceGatedSum {
  DeviceModulation rows;
  const void* gate = nullptr;   // [batch, width]
  const void* added = nullptr;  // [batch, tokens, width], contiguous
};
void gated_sum_on_device(const DeviceGatedSum& args, void* stream);

}  // namespace quaver::kernels
