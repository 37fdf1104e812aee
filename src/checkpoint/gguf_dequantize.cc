#include "checkpoint/gguf_dequantize.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/thread_pool.h"
#include "checkpoint/checked.h"
#include "numerics/half.h"
#include "numerics/iq4nl.h"

namespace quaver {
namespace {

// "P8": byte j of 16 holds element j in its low nibble and element j + 16 in its high one.

uint8_t byte_at(const std::byte* in, size_t i) { return std::to_integer<uint8_t>(in[i]); }
uint16_t u16_at(const std::byte* in) { return static_cast<uint16_t>(byte_at(in, 0) | byte_at(in, 1) << 8); }
uint32_t u32_at(const std::byte* in) { return u16_at(in) | static_cast<uint32_t>(u16_at(in + 2)) << 16; }
float f16_at(const std::byte* in) { return f16_to_float(u16_at(in)); }
int nibble(const std::byte* in, size_t i) { return i < 16 ? byte_at(in, i) & 15 : byte_at(in, i - 16) >> 4; }

void f32_block(const std::byte* in, float* out) { *out = std::bit_cast<float>(u32_at(in)); }
void f16_block(const std::byte* in, float* out) { *out = f16_at(in); }
void bf16_block(const std::byte* in, float* out) { *out = bf16_to_float(u16_at(in)); }

// f16 d, P8.
void q4_0_block(const std::byte* in, float* out) {
  float d = f16_at(in);
  for (size_t i = 0; i < 32; ++i) out[i] = d * static_cast<float>(nibble(in + 2, i) - 8);
}

// f16 d, f16 m, P8.
void q4_1_block(const std::byte* in, float* out) {
  float d = f16_at(in), m = f16_at(in + 2);
  for (size_t i = 0; i < 32; ++i) out[i] = d * static_cast<float>(nibble(in + 4, i)) + m;
}

// f16 d, u32 of fifth bits, P8.
void q5_0_block(const std::byte* in, float* out) {
  float d = f16_at(in);
  uint32_t high = u32_at(in + 2);
  for (size_t i = 0; i < 32; ++i)
    out[i] = d * static_cast<float>((nibble(in + 6, i) | static_cast<int>(high >> i & 1u) << 4) - 16);
}

// f16 d, f16 m, u32 of fifth bits, P8.
void q5_1_block(const std::byte* in, float* out) {
  float d = f16_at(in), m = f16_at(in + 2);
  uint32_t high = u32_at(in + 4);
  for (size_t i = 0; i < 32; ++i)
    out[i] = d * static_cast<float>(nibble(in + 8, i) | static_cast<int>(high >> i & 1u) << 4) + m;
}

// f16 d, 32 signed bytes.
void q8_0_block(const std::byte* in, float* out) {
  float d = f16_at(in);
  for (size_t i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<int8_t>(byte_at(in + 2, i)));
}

// Bit planes of 256-element blocks: per 128 elements, 32 bytes whose byte p holds the two bits of elements p,
// p + 32, p + 64 and p + 96 from the bottom up.
int two_bits(const std::byte* plane, size_t i) {
  size_t half = i / 128, group = i / 32 % 4, p = i % 32;
  return byte_at(plane, half * 32 + p) >> (2 * group) & 3;
}

// 16 bytes (scale low nibble, min high nibble) for groups of 16, two-bit plane, f16 d, f16 dmin.
void q2_k_block(const std::byte* in, float* out) {
  float d = f16_at(in + 80), dmin = f16_at(in + 82);
  for (size_t i = 0; i < 256; ++i) {
    uint8_t packed = byte_at(in, i / 16);
    float scale = d * static_cast<float>(packed & 15), min = dmin * static_cast<float>(packed >> 4);
    out[i] = scale * static_cast<float>(two_bits(in + 16, i)) - min;
  }
}

// Byte p bit j of hmask[32] is the third bit of element 32 j + p, clear meaning 4 less; two-bit plane, 12
// bytes of 6-bit scales for groups of 16, f16 d.
void q3_k_block(const std::byte* in, float* out) {
  const std::byte* scales = in + 96;
  float d = f16_at(in + 108);
  std::array<float, 16> group_scale;
  for (size_t j = 0; j < 16; ++j) {
    int low = j < 8 ? byte_at(scales, j) & 15 : byte_at(scales, j - 8) >> 4;
    int high = byte_at(scales, 8 + j % 4) >> (2 * (j / 4)) & 3;
    group_scale[j] = d * static_cast<float>((low | high << 4) - 32);
  }
  for (size_t i = 0; i < 256; ++i) {
    int third = byte_at(in, i % 32) >> (i / 32) & 1;
    out[i] = group_scale[i / 16] * static_cast<float>(two_bits(in + 32, i) - (third ? 0 : 4));
  }
}

struct ScaleMin {
  int scale, min;
};

// The 6-bit scale and min of group j of 8, out of 12 bytes that Q4_K and Q5_K share.
ScaleMin scale_min(const std::byte* b, size_t j) {
  if (j < 4) return {byte_at(b, j) & 63, byte_at(b, j + 4) & 63};
  return {(byte_at(b, j + 4) & 15) | byte_at(b, j - 4) >> 6 << 4,
          byte_at(b, j + 4) >> 4 | byte_at(b, j) >> 6 << 4};
}

// f16 d, f16 dmin, 12 bytes of scales and mins, 128 bytes; `high` (Q5_K) holds the fifth bit of group j in
// bit j.
void q4_or_5_k(const std::byte* in, const std::byte* high, const std::byte* nibbles, float* out) {
  float d = f16_at(in), dmin = f16_at(in + 2);
  for (size_t group = 0; group < 8; ++group) {
    ScaleMin packed = scale_min(in + 4, group);
    float scale = d * static_cast<float>(packed.scale), min = dmin * static_cast<float>(packed.min);
    for (size_t p = 0; p < 32; ++p) {
      int code = byte_at(nibbles, group / 2 * 32 + p) >> (group % 2 * 4) & 15;
      if (high != nullptr) code |= (byte_at(high, p) >> group & 1) << 4;
      out[group * 32 + p] = scale * static_cast<float>(code) - min;
    }
  }
}
void q4_k_block(const std::byte* in, float* out) { q4_or_5_k(in, nullptr, in + 16, out); }
void q5_k_block(const std::byte* in, float* out) { q4_or_5_k(in, in + 16, in + 48, out); }

// 128 bytes of low nibbles (per 128 elements, byte p of 64: element p low, p + 64 high), plane of the high
// two bits, 16 signed scales for groups of 16, f16 d.
void q6_k_block(const std::byte* in, float* out) {
  float d = f16_at(in + 208);
  for (size_t i = 0; i < 256; ++i) {
    size_t within = i % 128;
    int low = byte_at(in, i / 128 * 64 + within % 64) >> (within / 64 * 4) & 15;
    float scale = d * static_cast<float>(static_cast<int8_t>(byte_at(in + 192, i / 16)));
    out[i] = scale * static_cast<float>((low | two_bits(in + 128, i) << 4) - 32);
  }
}

// f16 d, P8 of table codes.
void iq4_nl_block(const std::byte* in, float* out) {
  float d = f16_at(in);
  for (size_t i = 0; i < 32; ++i) out[i] = d * iq4nl_to_float(static_cast<uint8_t>(nibble(in + 2, i)));
}

// f16 d, u16 with the high two bits of 8 scales, 4 bytes with their low nibbles, 8 times P8 of table codes.
void iq4_xs_block(const std::byte* in, float* out) {
  float d = f16_at(in);
  uint32_t high = u16_at(in + 2);
  for (size_t group = 0; group < 8; ++group) {
    int low = byte_at(in + 4, group / 2) >> (group % 2 * 4) & 15;
    float scale = d * static_cast<float>((low | static_cast<int>(high >> (2 * group) & 3u) << 4) - 32);
    for (size_t i = 0; i < 32; ++i)
      out[group * 32 + i] = scale * iq4nl_to_float(static_cast<uint8_t>(nibble(in + 8 + group * 16, i)));
  }
}

// e8m0, P8 of e2m1. GGUF's definition multiplies doubled values by half the scale, and takes code 255 for a
// number; code 8 is +0.
void mxfp4_block(const std::byte* in, float* out) {
  constexpr std::array<int8_t, 16> kDoubled = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  uint32_t e = byte_at(in, 0);
  float half_scale = std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
  for (size_t i = 0; i < 32; ++i)
    out[i] = half_scale * static_cast<float>(kDoubled[static_cast<size_t>(nibble(in + 1, i))]);
}

struct Row {
  DType dtype;
  void (*block)(const std::byte* in, float* out);
};
constexpr std::array kRows = {
    Row{DType::kF32, f32_block},     Row{DType::kF16, f16_block},       Row{DType::kBF16, bf16_block},
    Row{DType::kQ4_0, q4_0_block},   Row{DType::kQ4_1, q4_1_block},     Row{DType::kQ5_0, q5_0_block},
    Row{DType::kQ5_1, q5_1_block},   Row{DType::kQ8_0, q8_0_block},     Row{DType::kQ2_K, q2_k_block},
    Row{DType::kQ3_K, q3_k_block},   Row{DType::kQ4_K, q4_k_block},     Row{DType::kQ5_K, q5_k_block},
    Row{DType::kQ6_K, q6_k_block},   Row{DType::kIQ4_NL, iq4_nl_block}, Row{DType::kIQ4_XS, iq4_xs_block},
    Row{DType::kMXFP4, mxfp4_block},
};

const Row* find_blocks(DType dtype) {
  auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.dtype == dtype; });
  return row == kRows.end() ? nullptr : &*row;
}

}  // namespace

bool can_dequantize_gguf(DType dtype) { return find_blocks(dtype) != nullptr; }

void gguf_dequantize(DType dtype, std::span<const std::byte> blocks, std::span<float> values) {
  const Row* row = find_blocks(dtype);
  const DTypeInfo& info = dtype_info(dtype);
  require(row != nullptr, ErrorKind::kUnsupported, "tensors of type ", info.name, " can't be dequantized");
  auto block_bytes = static_cast<size_t>(info.block_bytes),
       elements = static_cast<size_t>(info.block_elements);
  size_t count = blocks.size() / block_bytes;
  require(count * block_bytes == blocks.size() && count * elements == values.size(), ErrorKind::kInternal,
          blocks.size(), " bytes of ", info.name, " do not make ", values.size(), " values");
  auto grain = static_cast<int64_t>(std::max<size_t>(1, 65536 / elements));
  global_thread_pool().parallel_for(static_cast<int64_t>(count), grain, [&](int64_t begin, int64_t end) {
    for (auto b = static_cast<size_t>(begin); b < static_cast<size_t>(end); ++b)
      row->block(blocks.data() + b * block_bytes, values.data() + b * elements);
  });
}

std::vector<float> gguf_dequantize(const TensorView& tensor) {
  auto elements = checked_elements(tensor.shape);
  require(elements.has_value(), ErrorKind::kInternal, "a tensor's shape overflows");
  std::vector<float> values(*elements);
  gguf_dequantize(tensor.dtype, tensor.data.bytes(), values);
  return values;
}

}  // namespace quaver
