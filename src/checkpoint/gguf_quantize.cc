#include "checkpoint/gguf_quantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/thread_pool.h"
#include "checkpoint/gguf_k_quants.h"
#include "checkpoint/little_endian.h"
#include "numerics/half.h"

namespace quaver {
namespace {

constexpr size_t kBlock = 32;
constexpr float kLargestHalf = 65504.0f;
using BlockCodes = std::array<uint8_t, kBlock>;

// 0 for a step that is zero, or so small that nothing can be divided by it.
float inverse_of(float step) {
  const float inverse = step != 0 ? 1.0f / step : 0.0f;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

uint8_t cut(float value, int top) { return static_cast<uint8_t>(std::min(static_cast<int>(value), top)); }

// Low nibbles as "P8" of gguf_block.cc; fifth bits, where there are any, in 4 bytes before them.
void store_codes(const BlockCodes& codes, bool fifth_bits, std::byte* out) {
  if (fifth_bits) {
    uint32_t high = 0;
    for (size_t i = 0; i < kBlock; ++i) high |= static_cast<uint32_t>(codes[i] >> 4) << i;
    write_little_endian(out, high, 4);
    out += 4;
  }
  for (size_t i = 0; i < kBlock / 2; ++i)
    out[i] = static_cast<std::byte>((codes[i] & 15) | (codes[i + kBlock / 2] & 15) << 4);
}

// The value of greatest magnitude gets the lowest code.
void encode_symmetric(const float* in, int half, std::byte* out) {
  float largest = 0;
  for (size_t i = 0; i < kBlock; ++i)
    if (std::abs(in[i]) > std::abs(largest)) largest = in[i];
  const float d = largest / static_cast<float>(-half), inverse = inverse_of(d);
  BlockCodes codes;
  for (size_t i = 0; i < kBlock; ++i)
    codes[i] = cut(in[i] * inverse + (static_cast<float>(half) + 0.5f), 2 * half - 1);
  write_little_endian(out, float_to_f16(d), 2);
  store_codes(codes, half > 8, out + 2);
}

void encode_from_minimum(const float* in, int top, std::byte* out) {
  const auto [low, high] = std::minmax_element(in, in + kBlock);
  const float m = *low, d = (*high - m) / static_cast<float>(top), inverse = inverse_of(d);
  BlockCodes codes;
  for (size_t i = 0; i < kBlock; ++i) codes[i] = cut((in[i] - m) * inverse + 0.5f, top);
  write_little_endian(out, float_to_f16(d), 2);
  write_little_endian(out + 2, float_to_f16(m), 2);
  store_codes(codes, top > 15, out + 4);
}

void encode_f32(const float* in, std::byte* out) {
  write_little_endian(out, std::bit_cast<uint32_t>(*in), 4);
}
void encode_f16(const float* in, std::byte* out) { write_little_endian(out, float_to_f16(*in), 2); }
void encode_bf16(const float* in, std::byte* out) { write_little_endian(out, float_to_bf16(*in), 2); }
void encode_q4_0(const float* in, std::byte* out) { encode_symmetric(in, 8, out); }
void encode_q4_1(const float* in, std::byte* out) { encode_from_minimum(in, 15, out); }
void encode_q5_0(const float* in, std::byte* out) { encode_symmetric(in, 16, out); }
void encode_q5_1(const float* in, std::byte* out) { encode_from_minimum(in, 31, out); }

void encode_q8_0(const float* in, std::byte* out) {
  float largest = 0;
  for (size_t i = 0; i < kBlock; ++i) largest = std::max(largest, std::abs(in[i]));
  const float d = largest / 127.0f, inverse = inverse_of(d);
  write_little_endian(out, float_to_f16(d), 2);
  for (size_t i = 0; i < kBlock; ++i)
    out[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::round(in[i] * inverse)));
}

struct Encoder {
  DType dtype;
  void (*block)(const float* in, std::byte* out);
  float largest = kLargestHalf;  // magnitude that it holds
};
constexpr float kAny = std::numeric_limits<float>::max();
constexpr std::array kEncoders = {
    Encoder{DType::kF32, encode_f32, kAny},   Encoder{DType::kF16, encode_f16},
    Encoder{DType::kBF16, encode_bf16, kAny}, Encoder{DType::kQ4_0, encode_q4_0},
    Encoder{DType::kQ4_1, encode_q4_1},       Encoder{DType::kQ5_0, encode_q5_0},
    Encoder{DType::kQ5_1, encode_q5_1},       Encoder{DType::kQ8_0, encode_q8_0},
    Encoder{DType::kQ4_K, encode_q4_k},       Encoder{DType::kQ5_K, encode_q5_k},
    Encoder{DType::kQ6_K, encode_q6_k},
};

const Encoder* find_encoder(DType dtype) {
  auto row = std::ranges::find(kEncoders, dtype, &Encoder::dtype);
  return row == kEncoders.end() ? nullptr : &*row;
}

void check_values(const Encoder& encoder, std::span<const float> values, std::string_view what) {
  for (size_t i = 0; i < values.size(); ++i) {
    require(std::isfinite(values[i]), ErrorKind::kNonFinite, what, ": value ", i, " is not a finite number");
    require(std::abs(values[i]) <= encoder.largest, ErrorKind::kInvalidInput, what, ": value ", i, " is ",
            values[i], ", and ", dtype_info(encoder.dtype).name, " holds at most ", encoder.largest);
  }
}

}  // namespace

bool can_quantize_gguf(DType dtype) { return find_encoder(dtype) != nullptr; }

Buffer gguf_quantize(DType dtype, std::span<const float> values, std::string_view what) {
  const Encoder* encoder = find_encoder(dtype);
  const DTypeInfo& info = dtype_info(dtype);
  require(encoder != nullptr, ErrorKind::kInternal, what, ": values can't be quantized to ", info.name);
  const auto elements = static_cast<size_t>(info.block_elements),
             bytes = static_cast<size_t>(info.block_bytes);
  require(values.size() % elements == 0, ErrorKind::kInternal, what, ": ", values.size(),
          " values don't fill ", info.name, " blocks of ", elements);
  check_values(*encoder, values, what);
  const size_t count = values.size() / elements;
  std::byte* out = nullptr;
  Buffer blocks = Buffer::allocate(count * bytes, out);
  const auto grain = static_cast<int64_t>(std::max<size_t>(1, 16384 / elements));
  global_thread_pool().parallel_for(static_cast<int64_t>(count), grain, [&](int64_t begin, int64_t end) {
    for (auto b = static_cast<size_t>(begin); b < static_cast<size_t>(end); ++b)
      encoder->block(values.data() + b * elements, out + b * bytes);
  });
  return blocks;
}

}  // namespace quaver
