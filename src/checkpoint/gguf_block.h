// The layouts of GGUF's quantized blocks, taken apart into codes and scales without computing anything.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "numerics/dtype.h"

namespace quaver {

enum class GgufCode : uint8_t { kInteger, kIQ4NL, kE2M1 };
enum class GgufScale : uint8_t {
  kF16,
  kE8M0,
  kU4,
  kU6,
  kI8
};  // kF16, kE8M0: the block's own, no second level

// What a block of one type says: value = scale * (code - middle) - minimum, with the scale of each `group`
// values. With a second level, a group's scale and minimum are small integers times the block's.
struct GgufBlockForm {
  DType dtype;
  GgufCode code;
  int bits;
  int group;   // values
  int middle;  // taken off integer codes
  GgufScale scale;
  bool has_minimum;
  void (*split)(const std::byte* block, struct GgufBlock& parts);

  bool two_levels() const { return scale != GgufScale::kF16 && scale != GgufScale::kE8M0; }
};

// One block in parts; groups and codes in the order of values. Members that the form has no use for are left.
struct GgufBlock {
  std::array<uint8_t, 256> codes;
  std::array<uint8_t, 16> scales, minima;  // of groups, where there are two levels; kI8: two's complement
  uint16_t scale;                          // of the block: half precision, or the byte of kE8M0
  uint16_t minimum;                        // half precision; one level: added, not subtracted
};

// Null for types that hold no blocks or are not read.
const GgufBlockForm* gguf_block_form(DType dtype);

}  // namespace quaver
