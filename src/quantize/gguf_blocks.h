// One matrix as GGUF blocks, and what became of its values on the way.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/buffer.h"
#include "formats/quant_weight.h"
#include "numerics/dtype.h"

namespace quaver::quantize {

// From the least change to the most.
enum class ValueFate : uint8_t {
  kCopied,   // the blocks of another GGUF
  kSame,     // every value as it was
  kCodes,    // every code as it was; scales or minima rounded to half precision
  kRounded,  // rounded anew
};

struct GgufBlocks {
  Buffer bytes;
  ValueFate fate = ValueFate::kSame;
};

// Plain values, row-major. Errors as of gguf_quantize.
GgufBlocks to_gguf_blocks(std::span<const float> values, DType type, std::string_view what);

// A quantized weight: with its own codes where the type can hold them (Q4_0, Q4_1 and Q8_0, groups of a
// multiple of 32), else from its values.
GgufBlocks to_gguf_blocks(const QuantWeight& weight, DType type, std::string_view what);

}  // namespace quaver::quantize
