// Turns float32 into GGUF's blocks, the reverse of gguf_dequantize.h.
#pragma once

#include <span>
#include <string_view>

#include "base/buffer.h"
#include "numerics/dtype.h"

namespace quaver {

// True for F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K.
bool can_quantize_gguf(DType dtype);

// Whole blocks of one tensor, row after row, with the bytes that ggml's reference quantizers give without an
// importance matrix. Spread over the global thread pool; safe from any thread. Preconditions:
// can_quantize_gguf and whole blocks (else Error(kInternal)). Error(kNonFinite) beginning with `what` for a
// value that is no number; Error(kInvalidInput) for one above 65504 where the type holds half precision.
Buffer gguf_quantize(DType dtype, std::span<const float> values, std::string_view what);

}  // namespace quaver
