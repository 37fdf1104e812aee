// GELU in a CUDA device's memory, written behind other values of the row.
#pragma once

#include <cstdint>

#include "kernels/device.h"

namespace quaver::kernels {

// Device memory, borrowed, aligned to 16 bytes, all contiguous.
struct DeviceGeluBeside {
  DeviceFloat type = DeviceFloat::kBF16;  // of all values
  const void* x = nullptr;                // [rows, width]
  const void* inner = nullptr;            // [rows, inner_width]
  void* y = nullptr;                      // [rows, width + inner_width]
  int64_t rows = 0, width = 0, inner_width = 0;
};

// Widths that the kernel takes: multiples of 8.
bool device_gelu_beside_takes(int64_t width, int64_t inner_width);

// y = x, then GELU (its tanh form) of inner, in float32 and rounded once. `stream` is a cudaStream_t.
void gelu_beside_on_device(const DeviceGeluBeside& args, void* stream);

}  // namespace quaver::kernels
