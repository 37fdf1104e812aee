#include "checkpoint/gguf_dequantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/thread_pool.h"
#include "checkpoint/checked.h"
#include "checkpoint/gguf_block.h"
#include "numerics/half.h"
#include "numerics/iq4nl.h"

namespace quaver {
namespace {

using Decode = void (*)(const std::byte* in, float* out);

void f32_value(const std::byte* in, float* out) { std::memcpy(out, in, 4); }
template <float (*to_float)(uint16_t)>
void half_value(const std::byte* in, float* out) {
  uint16_t bits;
  std::memcpy(&bits, in, 2);
  *out = to_float(bits);
}

struct Row {
  DType dtype;
  Decode value;
};
constexpr std::array kPlainRows = {Row{DType::kF32, f32_value}, Row{DType::kF16, half_value<f16_to_float>},
                                   Row{DType::kBF16, half_value<bf16_to_float>}};

Decode find_plain(DType dtype) {
  const auto row = std::ranges::find(kPlainRows, dtype, &Row::dtype);
  return row == kPlainRows.end() ? nullptr : row->value;
}

// GGUF's definition multiplies doubled values by half the scale, and takes code 255 for a number; code 8 is
// +0.
void mxfp4_values(const GgufBlock& block, std::span<float> out) {
  constexpr std::array<int8_t, 16> kDoubled = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  const uint32_t e = block.scale;
  const float half_scale = std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
  for (size_t i = 0; i < out.size(); ++i) out[i] = half_scale * static_cast<float>(kDoubled[block.codes[i]]);
}

// Scale and minimum of one group: what is multiplied and what is subtracted.
struct GroupTerms {
  float scale, minimum;
};

GroupTerms terms_of(const GgufBlockForm& form, const GgufBlock& block, size_t group) {
  const float scale = f16_to_float(block.scale), minimum = f16_to_float(block.minimum);
  if (!form.two_levels()) return {scale, -minimum};
  const int factor = form.scale == GgufScale::kI8 ? static_cast<int8_t>(block.scales[group])
                                                  : static_cast<int>(block.scales[group]);
  return {scale * static_cast<float>(factor), minimum * static_cast<float>(block.minima[group])};
}

void block_values(const GgufBlockForm& form, const GgufBlock& block, std::span<float> out) {
  if (form.scale == GgufScale::kE8M0) return mxfp4_values(block, out);
  const auto group_size = static_cast<size_t>(form.group);
  for (size_t begin = 0; begin < out.size(); begin += group_size) {
    const auto [scale, minimum] = terms_of(form, block, begin / group_size);
    for (size_t i = begin; i < begin + group_size; ++i)
      out[i] = scale * (form.code == GgufCode::kIQ4NL ? iq4nl_to_float(block.codes[i])
                                                      : static_cast<float>(block.codes[i] - form.middle));
    if (form.has_minimum)
      for (size_t i = begin; i < begin + group_size; ++i) out[i] -= minimum;
  }
}

void decode(DType dtype, std::span<const std::byte> blocks, std::span<float> values) {
  const DTypeInfo& info = dtype_info(dtype);
  const auto block_bytes = static_cast<size_t>(info.block_bytes),
             elements = static_cast<size_t>(info.block_elements);
  const GgufBlockForm* form = gguf_block_form(dtype);
  const Decode plain = find_plain(dtype);
  GgufBlock parts{};
  for (size_t b = 0; b < blocks.size() / block_bytes; ++b) {
    if (plain) {
      plain(blocks.data() + b * block_bytes, values.data() + b);
    } else {
      form->split(blocks.data() + b * block_bytes, parts);
      block_values(*form, parts, values.subspan(b * elements, elements));
    }
  }
}

}  // namespace

bool can_dequantize_gguf(DType dtype) {
  return find_plain(dtype) != nullptr || gguf_block_form(dtype) != nullptr;
}

void gguf_dequantize(DType dtype, std::span<const std::byte> blocks, std::span<float> values) {
  const DTypeInfo& info = dtype_info(dtype);
  require(can_dequantize_gguf(dtype), ErrorKind::kUnsupported, "tensors of type ", info.name,
          " can't be dequantized");
  auto block_bytes = static_cast<size_t>(info.block_bytes),
       elements = static_cast<size_t>(info.block_elements);
  size_t count = blocks.size() / block_bytes;
  require(count * block_bytes == blocks.size() && count * elements == values.size(), ErrorKind::kInternal,
          blocks.size(), " bytes of ", info.name, " do not make ", values.size(), " values");
  auto grain = static_cast<int64_t>(std::max<size_t>(1, 65536 / elements));
  global_thread_pool().parallel_for(static_cast<int64_t>(count), grain, [&](int64_t begin, int64_t end) {
    const auto first = static_cast<size_t>(begin), number = static_cast<size_t>(end - begin);
    decode(dtype, blocks.subspan(first * block_bytes, number * block_bytes),
           values.subspan(first * elements, number * elements));
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
