// Turns GGUF's blocks into float32.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace quaver {

// True for F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K ... Q6_K, IQ4_NL, IQ4_XS and MXFP4.
bool can_dequantize_gguf(DType dtype);

// One value per element, in order; products and sums in float32 in the order that the format's definition
// gives, so that values equal those of the gguf package bit for bit. Spread over the global thread pool; safe
// from any thread. Preconditions: whole blocks, and `values` as long as they say (else Error(kInternal)).
// Throws Error(kUnsupported) for other types.
void gguf_dequantize(DType dtype, std::span<const std::byte> blocks, std::span<float> values);

// A whole tensor, row-major.
std::vector<float> gguf_dequantize(const TensorView& tensor);

}  // namespace quaver
