// Queries or keys in a CUDA device's memory on their way into attention: heads normalized, pairs turned.
#pragma once

#include <cstdint>

#include "kernels/device.h"

namespace quaver::kernels {

// Device memory, borrowed, aligned to 16 bytes. Strides count values; a token's heads lie one after the
// other.
struct DeviceHeads {
  DeviceFloat type = DeviceFloat::kBF16;  // of x and y
  const void* x = nullptr;                // [batch, tokens, heads, head_dim]
  int64_t x_batch_stride = 0, x_token_stride = 0;
  void* y = nullptr;  // the same
  int64_t y_batch_stride = 0, y_token_stride = 0;
  const float* weight = nullptr;               // [head_dim]
  const float *cos = nullptr, *sin = nullptr;  // [tokens, head_dim / 2]
  int64_t batch = 0, tokens = 0, heads = 0, head_dim = 0;
  float epsilon = 0;
};

// Sizes of heads that the kernel takes: multiples of 8 up to 256.
bool turn_heads_takes(int64_t head_dim);

// y = x / sqrt(mean(x^2) + epsilon) * weight, then pairs (2 j, 2 j + 1) turned in place; in float32, rounded
// once. `stream` is a cudaStream_t.
void turn_heads_on_device(const DeviceHeads& args, void* stream);

}  // namespace quaver::kernels
