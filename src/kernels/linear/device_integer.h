// Integer weights in a CUDA device's memory: expanding them, and multiplying a few rows by them as they lie.
#pragma once

#include <cstdint>

#include "kernels/device.h"

namespace quaver::kernels {

// Device memory, borrowed; the layout of quant_weight.h, uploaded as it is.
struct DeviceIntegerWeight {
  const uint8_t* codes = nullptr;  // [rows, row_bytes]: `bits` per code, low bits first
  const void* scales = nullptr;    // [rows, groups]
  DeviceFloat scale_type = DeviceFloat::kF16;
  const uint8_t* zeros = nullptr;    // [rows, groups]; null = symmetric about 2^(bits-1)
  const int64_t* channel = nullptr;  // [cols]: each channel's group; null = channel / group
  int bits = 4;                      // 2 to 8
  int64_t rows = 0, cols = 0, row_bytes = 0, group = 0, groups = 0;
};

// out [rows, cols]: scale * (code - zero) in float32, rounded to `type`. `stream` is a cudaStream_t.
void expand_integer(const DeviceIntegerWeight& weight, DeviceFloat type, void* out, void* stream);

// Whether multiply_integer takes this weight with m rows: up to 8 of them, and whole eights of channels in
// every group.
bool multiplies_directly(const DeviceIntegerWeight& weight, int64_t m);

struct DeviceRows {
  DeviceFloat type = DeviceFloat::kBF16;  // of x, y and bias
  const void* x = nullptr;                // [m, cols], contiguous
  void* y = nullptr;                      // [m, rows], contiguous
  const void* bias = nullptr;             // [rows] or null
  int64_t m = 0;
};

// y = x W^T + bias with float32 products and sums, rounded once. One warp per row of the weight, so what
// counts is how fast the codes are read.
void multiply_integer(const DeviceIntegerWeight& weight, const DeviceRows& rows, void* stream);

}  // namespace quaver::kernels
