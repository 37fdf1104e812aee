// The one in-memory form of a quantized matrix: every vendor format unpacks to it, every kernel prepacks from
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "numerics/element.h"

namespace quaver {

struct Extent2d {
  int64_t rows = 0, cols = 0;
  bool operator==(const Extent2d&) const = default;
};

// Scales of shape [ceil(out / group.rows), ceil(in / group.cols)], row-major. May be negative.
struct Scales {
  ScaleCodec codec = ScaleCodec::kF32;
  Buffer data;
  // Second level, always a multiplier; null when there is none. Its count divides this level's: entry i here
  // goes with entry i / (count / super count) there, so one entry is a global scale.
  std::unique_ptr<Scales> super;
  // Where a file divides by this level, the one number it stores; `data` is 1 / divisor, rounded, so that
  // readers may multiply. Then `decode_scales` of the level below divides, as the file's tool does. 0: it
  // multiplies.
  float divisor = 0.0f;
};

// Integer zero points, one byte each, same shape as the scales: w = scale * (code - zero).
struct IntegerZeros {
  Buffer data;  // uint8
};

// Real minima in the scales' codec, same shape: w = scale * code - min.
struct RealMins {
  Scales mins;
};

// Which power of two scales a group whose greatest magnitude is a, where m = f x 2^e (1 <= f < 2) is the
// element's largest number. Tools differ, and no file says which.
enum class PowerOfTwo : uint8_t {
  kFloor,    // floor(a) / 2^e, floor to a power of two: OCP MX 1.0, section 6.3; magnitudes may be cut
  kRounded,  // the same after a was rounded, half up, to as many bits of mantissa as the element has
  kRoundedToOneBit,  // ... to one bit, whatever the element
  kCeil,             // the smallest power of two of at least a, / 2^e
  kFit,              // the smallest that is at least a / m: nothing is cut
};

// What the checkpoint asks of the layer's input, after `input_multiplier`. Integer codes are signed here:
// kInt8 goes from -128 to 127, where `narrow` from -127.
struct ActivationQuant {
  enum class Mode { kNone, kStatic, kDynamic } mode = Mode::kNone;
  Element element = Element::kInt8;
  int64_t group = 0;  // elements of one row that share a scale; 0 = the whole tensor, -1 = the row
  bool sym = true;    // false: integers with a zero point, x = scale * (code - zero)
  // Symmetric integers, kDynamic: the scale is a / largest code; else a / (largest code + 1/2).
  bool narrow = false;
  float static_scale = 1.0f;
  int static_zero = 0;
  ScaleCodec scale = ScaleCodec::kF32;           // kDynamic: how the scale of a group is stored
  PowerOfTwo power_of_two = PowerOfTwo::kFloor;  // where `scale` is kE8M0
  // kDynamic: a second level over the groups' scales, fixed by the checkpoint, a multiplier. Where the file
  // divides, `super_divisor` is the number it stores, else 0.
  float super_scale = 1.0f;
  float super_divisor = 0.0f;
  // kDynamic, scales in e4m3fn: the second level is each row's own in place of `super_scale`: its largest
  // magnitude over the largest code and the largest scale.
  bool super_per_row = false;
  // kDynamic: columns of the input that hold at least this magnitude are multiplied unquantized; 0: none are.
  float outlier_threshold = 0.0f;
  bool operator==(const ActivationQuant&) const = default;
};

struct QuantWeight {
  Element element = Element::kInt4;
  Extent2d shape;  // logical [out, in]
  Extent2d group;  // {1, 128} grouped, {1, in} per channel, {128, 128} block, {out, in} per tensor
  // Row-major [out, in]; each row starts on a byte and is a little-endian bit stream of `bits` per code, low
  // bits first. Integer codes are unsigned.
  Buffer codes;
  Scales scale;
  std::variant<std::monostate, IntegerZeros, RealMins>
      offset;  // monostate: symmetric about 2^(bits-1) for integers
  std::vector<int32_t>
      permutation;  // input channel k uses group permutation[k] / group.cols; empty when identity
  // What input channel k is multiplied by before anything else happens to it; empty when nothing.
  std::vector<float> input_multiplier;
  ActivationQuant activation;

  int64_t num_group_rows() const { return (shape.rows + group.rows - 1) / group.rows; }
  int64_t num_group_cols() const { return (shape.cols + group.cols - 1) / group.cols; }
  int64_t row_bytes() const { return (shape.cols * element_info(element).bits + 7) / 8; }
  // Bytes of codes, scales and offsets: what the weight costs in memory.
  size_t size_bytes() const;
};

// Row-major float32 [out, in], the matrix that the layer's input is multiplied with: products code x scale in
// fp32, then x input_multiplier where there is one. Precondition: the weight is valid.
std::vector<float> dequantize(const QuantWeight& weight);

// One float per group with the second level multiplied in, row-major like the scales.
std::vector<float> decode_scales(const Scales& scales);

// Bytes and extents agree, codes and scales are finite and no scale is zero over codes that differ from their
// zero point, zero points fit the element, the permutation is one, input multipliers are finite and not zero.
// Throws Error(kBadFile) beginning with `what`.
void validate(const QuantWeight& weight, std::string_view what);

}  // namespace quaver
