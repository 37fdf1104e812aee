#include "quantize/gguf_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "checkpoint/gguf_dequantize.h"
#include "checkpoint/gguf_quantize.h"
#include "checkpoint/little_endian.h"
#include "numerics/half.h"

namespace quaver::quantize {
namespace {

constexpr int64_t kGgufBlock = 32;

// Nothing when half precision loses more of it than a rounding of its 11 bits.
std::optional<uint16_t> in_half(float value) {
  const uint16_t bits = float_to_f16(value);
  return std::abs(f16_to_float(bits) - value) <= 0x1p-11f * std::abs(value) ? std::optional(bits)
                                                                            : std::nullopt;
}

// Codes, zero points and minima of a weight, one by one.
class CodeReader {
 public:
  explicit CodeReader(const QuantWeight& weight)
      : weight_(weight), bits_(element_info(weight.element).bits), scales_(decode_scales(weight.scale)) {
    if (const auto* real = std::get_if<RealMins>(&weight.offset)) mins_ = decode_scales(real->mins);
  }

  size_t group(int64_t row, int64_t col) const {
    return static_cast<size_t>(row / weight_.group.rows * weight_.num_group_cols() +
                               col / weight_.group.cols);
  }
  float scale(size_t group) const { return scales_[group]; }
  bool has_mins() const { return !mins_.empty(); }
  int zero(size_t group) const {
    if (const auto* zeros = std::get_if<IntegerZeros>(&weight_.offset))
      return std::to_integer<int>(zeros->data.bytes()[group]);
    return has_mins() ? 0 : 1 << (bits_ - 1);
  }
  // What is added to scale * code.
  float minimum(size_t group) const {
    return has_mins() ? -mins_[group] : -scales_[group] * static_cast<float>(zero(group));
  }
  int code(int64_t row, int64_t col) const {
    const int64_t row_bytes = weight_.row_bytes(), bit = col * bits_, byte = bit / 8;
    const auto bytes =
        weight_.codes.bytes().subspan(static_cast<size_t>(row * row_bytes), static_cast<size_t>(row_bytes));
    unsigned word = std::to_integer<unsigned>(bytes[static_cast<size_t>(byte)]);
    if (byte + 1 < row_bytes) word |= std::to_integer<unsigned>(bytes[static_cast<size_t>(byte + 1)]) << 8;
    return static_cast<int>(word >> (bit % 8) & ((1u << bits_) - 1));
  }

 private:
  const QuantWeight& weight_;
  int bits_;
  std::vector<float> scales_, mins_;
};

// How a type of blocks counts: code + `shift` - zero point in [low, high], after a scale and maybe a minimum.
struct BlockForm {
  DType type;
  int shift, low, high;
  bool has_minimum;
};
constexpr std::array kBlockForms = {BlockForm{DType::kQ4_0, 8, 0, 15, false},
                                    BlockForm{DType::kQ4_1, 0, 0, 15, true},
                                    BlockForm{DType::kQ8_0, 0, -128, 127, false}};

// False when a code or a number doesn't fit.
bool put_block(const CodeReader& reader, const BlockForm& form, int64_t row, int64_t col, std::byte* out) {
  const size_t group = reader.group(row, col);
  const auto scale = in_half(reader.scale(group)), minimum = in_half(reader.minimum(group));
  if (!scale || (form.has_minimum && !minimum)) return false;
  write_little_endian(out, *scale, 2);
  out += 2;
  if (form.has_minimum) {
    write_little_endian(out, *minimum, 2);
    out += 2;
  }
  const int zero = form.has_minimum ? 0 : reader.zero(group);
  for (int64_t i = 0; i < kGgufBlock; ++i) {
    const int code = reader.code(row, col + i) - zero + form.shift;
    if (code < form.low || code > form.high) return false;
    if (form.type == DType::kQ8_0)
      out[i] = static_cast<std::byte>(static_cast<int8_t>(code));
    else if (i < kGgufBlock / 2)
      out[i] = static_cast<std::byte>(code);
    else
      out[i - kGgufBlock / 2] |= static_cast<std::byte>(code << 4);
  }
  return true;
}

bool holds_codes(const QuantWeight& weight, const BlockForm& form) {
  const ElementInfo& element = element_info(weight.element);
  return element.integer && element.bits <= (form.type == DType::kQ8_0 ? 8 : 4) &&
         weight.permutation.empty() && weight.input_multiplier.empty() &&
         weight.shape.cols % kGgufBlock == 0 &&
         (weight.group.cols % kGgufBlock == 0 || weight.group.cols >= weight.shape.cols) &&
         (form.has_minimum || !std::holds_alternative<RealMins>(weight.offset));
}

std::optional<Buffer> blocks_of_codes(const QuantWeight& weight, DType type) {
  const auto form = std::ranges::find(kBlockForms, type, &BlockForm::type);
  if (form == kBlockForms.end() || !holds_codes(weight, *form)) return std::nullopt;
  const CodeReader reader(weight);
  const auto block_bytes = static_cast<size_t>(dtype_info(type).block_bytes);
  const auto count = static_cast<size_t>(weight.shape.rows * weight.shape.cols / kGgufBlock);
  std::byte* out = nullptr;
  Buffer blocks = Buffer::allocate(count * block_bytes, out);
  for (int64_t row = 0; row < weight.shape.rows; ++row)
    for (int64_t col = 0; col < weight.shape.cols; col += kGgufBlock, out += block_bytes)
      if (!put_block(reader, *form, row, col, out)) return std::nullopt;
  return blocks;
}

bool holds_values(const Buffer& blocks, DType type, std::span<const float> values) {
  std::vector<float> back(values.size());
  gguf_dequantize(type, blocks.bytes(), back);
  return std::ranges::equal(back, values);
}

}  // namespace

GgufBlocks to_gguf_blocks(std::span<const float> values, DType type, std::string_view what) {
  Buffer bytes = gguf_quantize(type, values, what);
  const bool same = holds_values(bytes, type, values);
  return {std::move(bytes), same ? ValueFate::kSame : ValueFate::kRounded};
}

GgufBlocks to_gguf_blocks(const QuantWeight& weight, DType type, std::string_view what) {
  const std::vector<float> values = dequantize(weight);
  std::optional<Buffer> own = blocks_of_codes(weight, type);
  if (!own) return to_gguf_blocks(values, type, what);
  const bool same = holds_values(*own, type, values);
  return {*std::move(own), same ? ValueFate::kSame : ValueFate::kCodes};
}

}  // namespace quaver::quantize
