#include "checkpoint/gguf_block.h"

#include <algorithm>

namespace quaver {
namespace {

uint8_t byte_at(const std::byte* in, size_t i) { return std::to_integer<uint8_t>(in[i]); }
uint16_t u16_at(const std::byte* in) { return static_cast<uint16_t>(byte_at(in, 0) | byte_at(in, 1) << 8); }
uint32_t u32_at(const std::byte* in) { return u16_at(in) | static_cast<uint32_t>(u16_at(in + 2)) << 16; }

// "P8": byte j of 16 holds element j in its low nibble and element j + 16 in its high one.
void p8(const std::byte* in, uint8_t* codes) {
  for (size_t i = 0; i < 16; ++i) {
    codes[i] = byte_at(in, i) & 15;
    codes[i + 16] = byte_at(in, i) >> 4;
  }
}

// P8 with a fifth bit for each element.
void p8_and_fifth_bits(const std::byte* in, uint32_t fifth, uint8_t* codes) {
  p8(in, codes);
  for (size_t i = 0; i < 32; ++i) codes[i] |= static_cast<uint8_t>((fifth >> i & 1u) << 4);
}

// f16 scale, P8.
void split_q4_0(const std::byte* in, GgufBlock& out) {
  out.scale = u16_at(in);
  p8(in + 2, out.codes.data());
}

// f16 scale, f16 minimum, P8.
void split_q4_1(const std::byte* in, GgufBlock& out) {
  out.scale = u16_at(in);
  out.minimum = u16_at(in + 2);
  p8(in + 4, out.codes.data());
}

// f16 scale, u32 of fifth bits, P8.
void split_q5_0(const std::byte* in, GgufBlock& out) {
  out.scale = u16_at(in);
  p8_and_fifth_bits(in + 6, u32_at(in + 2), out.codes.data());
}

// f16 scale, f16 minimum, u32 of fifth bits, P8.
void split_q5_1(const std::byte* in, GgufBlock& out) {
  out.scale = u16_at(in);
  out.minimum = u16_at(in + 2);
  p8_and_fifth_bits(in + 8, u32_at(in + 4), out.codes.data());
}

// f16 scale, 32 signed bytes.
void split_q8_0(const std::byte* in, GgufBlock& out) {
  out.scale = u16_at(in);
  for (size_t i = 0; i < 32; ++i) out.codes[i] = byte_at(in + 2, i) ^ 0x80;
}

// Bit planes of 256-element blocks: per 128 elements, 32 bytes whose byte p holds the two bits of elements p,
// p + 32, p + 64 and p + 96 from the bottom up.
uint8_t two_bits(const std::byte* plane, size_t i) {
  size_t half = i / 128, group = i / 32 % 4, p = i % 32;
  return byte_at(plane, half * 32 + p) >> (2 * group) & 3;
}

// 16 bytes (scale low nibble, minimum high nibble) for groups of 16, two-bit plane, f16 scale, f16 minimum.
void split_q2_k(const std::byte* in, GgufBlock& out) {
  out.scale = u16_at(in + 80);
  out.minimum = u16_at(in + 82);
  for (size_t j = 0; j < 16; ++j) {
    out.scales[j] = byte_at(in, j) & 15;
    out.minima[j] = byte_at(in, j) >> 4;
  }
  for (size_t i = 0; i < 256; ++i) out.codes[i] = two_bits(in + 16, i);
}

// Byte p bit j of the first 32 is the third bit of element 32 j + p; two-bit plane, 12 bytes of 6-bit scales
// above 32 for groups of 16, f16 scale.
void split_q3_k(const std::byte* in, GgufBlock& out) {
  const std::byte* scales = in + 96;
  out.scale = u16_at(in + 108);
  for (size_t j = 0; j < 16; ++j) {
    int low = j < 8 ? byte_at(scales, j) & 15 : byte_at(scales, j - 8) >> 4;
    int high = byte_at(scales, 8 + j % 4) >> (2 * (j / 4)) & 3;
    out.scales[j] = static_cast<uint8_t>((low | high << 4) - 32);
  }
  for (size_t i = 0; i < 256; ++i)
    out.codes[i] = static_cast<uint8_t>(two_bits(in + 32, i) | (byte_at(in, i % 32) >> (i / 32) & 1) << 2);
}

// The 6-bit scales and minima of 8 groups, out of 12 bytes that Q4_K and Q5_K share.
void split_scales_and_minima(const std::byte* b, GgufBlock& out) {
  for (size_t j = 0; j < 4; ++j) {
    out.scales[j] = byte_at(b, j) & 63;
    out.minima[j] = byte_at(b, j + 4) & 63;
    out.scales[j + 4] = static_cast<uint8_t>((byte_at(b, j + 8) & 15) | byte_at(b, j) >> 6 << 4);
    out.minima[j + 4] = static_cast<uint8_t>(byte_at(b, j + 8) >> 4 | byte_at(b, j + 4) >> 6 << 4);
  }
}

// Byte p of 32 holds element p of one group in its low nibble, of the next group in its high one.
void paired_groups(const std::byte* nibbles, uint8_t* codes) {
  for (size_t pair = 0; pair < 4; ++pair)
    for (size_t p = 0; p < 32; ++p) {
      codes[pair * 64 + p] = byte_at(nibbles, pair * 32 + p) & 15;
      codes[pair * 64 + 32 + p] = byte_at(nibbles, pair * 32 + p) >> 4;
    }
}

// f16 scale, f16 minimum, 12 bytes of scales and minima, 128 bytes of paired groups.
void split_q4_k(const std::byte* in, GgufBlock& out) {
  out.scale = u16_at(in);
  out.minimum = u16_at(in + 2);
  split_scales_and_minima(in + 4, out);
  paired_groups(in + 16, out.codes.data());
}

// The same with 32 bytes before the last part, whose byte p holds the fifth bit of element p of group j in
// bit j.
void split_q5_k(const std::byte* in, GgufBlock& out) {
  out.scale = u16_at(in);
  out.minimum = u16_at(in + 2);
  split_scales_and_minima(in + 4, out);
  paired_groups(in + 48, out.codes.data());
  for (size_t i = 0; i < 256; ++i)
    out.codes[i] |= static_cast<uint8_t>((byte_at(in + 16, i % 32) >> (i / 32) & 1) << 4);
}

// 128 bytes of low nibbles (per 128 elements, byte p of 64: element p low, p + 64 high), plane of the high
// two bits, 16 signed scales for groups of 16, f16 scale.
void split_q6_k(const std::byte* in, GgufBlock& out) {
  out.scale = u16_at(in + 208);
  for (size_t j = 0; j < 16; ++j) out.scales[j] = byte_at(in + 192, j);
  for (size_t i = 0; i < 256; ++i) {
    size_t within = i % 128;
    int low = byte_at(in, i / 128 * 64 + within % 64) >> (within / 64 * 4) & 15;
    out.codes[i] = static_cast<uint8_t>(low | two_bits(in + 128, i) << 4);
  }
}

// f16 scale, u16 with the high two bits of 8 scales above 32, 4 bytes with their low nibbles, 8 times P8.
void split_iq4_xs(const std::byte* in, GgufBlock& out) {
  out.scale = u16_at(in);
  uint32_t high = u16_at(in + 2);
  for (size_t group = 0; group < 8; ++group) {
    int low = byte_at(in + 4, group / 2) >> (group % 2 * 4) & 15;
    out.scales[group] = static_cast<uint8_t>((low | static_cast<int>(high >> (2 * group) & 3u) << 4) - 32);
    p8(in + 8 + group * 16, out.codes.data() + group * 32);
  }
}

// A byte of e8m0, P8 of e2m1.
void split_mxfp4(const std::byte* in, GgufBlock& out) {
  out.scale = byte_at(in, 0);
  p8(in + 1, out.codes.data());
}

constexpr GgufCode kInt = GgufCode::kInteger;
constexpr GgufBlockForm kForms[] = {
    {DType::kQ4_0, kInt, 4, 32, 8, GgufScale::kF16, false, split_q4_0},
    {DType::kQ4_1, kInt, 4, 32, 0, GgufScale::kF16, true, split_q4_1},
    {DType::kQ5_0, kInt, 5, 32, 16, GgufScale::kF16, false, split_q5_0},
    {DType::kQ5_1, kInt, 5, 32, 0, GgufScale::kF16, true, split_q5_1},
    {DType::kQ8_0, kInt, 8, 32, 128, GgufScale::kF16, false, split_q8_0},
    {DType::kQ2_K, kInt, 2, 16, 0, GgufScale::kU4, true, split_q2_k},
    {DType::kQ3_K, kInt, 3, 16, 4, GgufScale::kI8, false, split_q3_k},
    {DType::kQ4_K, kInt, 4, 32, 0, GgufScale::kU6, true, split_q4_k},
    {DType::kQ5_K, kInt, 5, 32, 0, GgufScale::kU6, true, split_q5_k},
    {DType::kQ6_K, kInt, 6, 16, 32, GgufScale::kI8, false, split_q6_k},
    {DType::kIQ4_NL, GgufCode::kIQ4NL, 4, 32, 0, GgufScale::kF16, false, split_q4_0},
    {DType::kIQ4_XS, GgufCode::kIQ4NL, 4, 32, 0, GgufScale::kI8, false, split_iq4_xs},
    {DType::kMXFP4, GgufCode::kE2M1, 4, 32, 0, GgufScale::kE8M0, false, split_mxfp4},
};

}  // namespace

const GgufBlockForm* gguf_block_form(DType dtype) {
  const auto form = std::ranges::find(kForms, dtype, &GgufBlockForm::dtype);
  return form == std::end(kForms) ? nullptr : form;
}

}  // namespace quaver
