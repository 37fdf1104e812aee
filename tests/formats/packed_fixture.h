// Packed layers made from codes by the packing rules themselves, bit by bit, and what they mean in double
// precision.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "memory_checkpoint.h"
#include "numerics/half.h"

namespace quaver {

// Codes [out, in], zero points and scales [groups, out]; everything a packed layer says.
struct PlainLayer {
  int bits = 4;
  int64_t out = 64, in = 256, group = 128;
  std::vector<int> codes;
  std::vector<int> zeros;
  std::vector<float> scales;  // exact in f16
  std::vector<int32_t> group_index;

  int64_t groups() const { return (in + group - 1) / group; }
  int64_t group_of(int64_t k) const {
    return group_index.empty() ? k / group : group_index[static_cast<size_t>(k)];
  }

  static PlainLayer random(int bits, int64_t out, int64_t in, int64_t group, bool sym, unsigned seed = 1) {
    PlainLayer layer{.bits = bits, .out = out, .in = in, .group = group};
    std::mt19937 generator(seed);
    const unsigned levels = 1u << bits;
    for (int64_t i = 0; i < out * in; ++i) layer.codes.push_back(static_cast<int>(generator() % levels));
    for (int64_t i = 0; i < out * layer.groups(); ++i) {
      layer.zeros.push_back(sym ? static_cast<int>(levels / 2)
                                : static_cast<int>(1 + generator() % (levels - 1)));
      const float scale = f16_to_float(float_to_f16(static_cast<float>(generator() % 1000 + 1) * 0.0003f));
      layer.scales.push_back(generator() % 2 ? scale : -scale);
    }
    return layer;
  }

  double value(int64_t n, int64_t k) const {
    const auto g = static_cast<size_t>(group_of(k) * out + n);
    return (codes[static_cast<size_t>(n * in + k)] - zeros[g]) * static_cast<double>(scales[g]);
  }
};

// Sets bit after bit, without any cleverness that the code under test might share.
inline std::vector<int32_t> pack_bits(
    int64_t rows, int64_t columns,
    const std::function<void(const std::function<void(int64_t row, int64_t column, int bit, bool set)>&)>&
        fill) {
  std::vector<uint32_t> words(static_cast<size_t>(rows * columns));
  fill([&](int64_t row, int64_t column, int bit, bool set) {
    if (set) words[static_cast<size_t>(row * columns + column)] |= 1u << bit;
  });
  return {words.begin(), words.end()};
}

// Adds qweight, qzeros, scales (and g_idx) with codes along the input; stored zero = zero - zero_offset.
inline void add_along_in(MemoryCheckpoint& checkpoint, const std::string& name, const PlainLayer& layer,
                         int zero_offset) {
  const int64_t rows = layer.in * layer.bits / 32, zero_columns = (layer.out * layer.bits + 31) / 32;
  checkpoint.add(name + ".qweight", DType::kI32, {rows, layer.out},
                 pack_bits(rows, layer.out, [&](const auto& set) {
                   for (int64_t n = 0; n < layer.out; ++n)
                     for (int64_t k = 0; k < layer.in; ++k)
                       for (int b = 0; b < layer.bits; ++b) {
                         const int64_t at = k * layer.bits + b;
                         set(at / 32, n, static_cast<int>(at % 32),
                             layer.codes[static_cast<size_t>(n * layer.in + k)] >> b & 1);
                       }
                 }));
  checkpoint.add(name + ".qzeros", DType::kI32, {layer.groups(), zero_columns},
                 pack_bits(layer.groups(), zero_columns, [&](const auto& set) {
                   for (int64_t g = 0; g < layer.groups(); ++g)
                     for (int64_t n = 0; n < layer.out; ++n)
                       for (int b = 0; b < layer.bits; ++b) {
                         const int64_t at = n * layer.bits + b;
                         const int stored = layer.zeros[static_cast<size_t>(g * layer.out + n)] - zero_offset;
                         set(g, at / 32, static_cast<int>(at % 32), stored >> b & 1);
                       }
                 }));
  std::vector<uint16_t> scales;
  for (float scale : layer.scales) scales.push_back(float_to_f16(scale));
  checkpoint.add(name + ".scales", DType::kF16, {layer.groups(), layer.out}, scales);
  if (!layer.group_index.empty()) checkpoint.add(name + ".g_idx", DType::kI32, {layer.in}, layer.group_index);
}

// Adds qweight, qzeros and scales with codes along the output, eight columns in the order 0 2 4 6 1 3 5 7.
inline void add_interleaved(MemoryCheckpoint& checkpoint, const std::string& name, const PlainLayer& layer) {
  const int64_t columns = layer.out * layer.bits / 32;
  const int slot_of[8] = {0, 4, 1, 5, 2, 6, 3, 7};
  const auto place = [&](const auto& set, int64_t row, int64_t n, int value) {
    for (int b = 0; b < layer.bits; ++b) {
      const int64_t at = (n / 8 * 8 + slot_of[n % 8]) * layer.bits + b;
      set(row, at / 32, static_cast<int>(at % 32), value >> b & 1);
    }
  };
  checkpoint.add(name + ".qweight", DType::kI32, {layer.in, columns},
                 pack_bits(layer.in, columns, [&](const auto& set) {
                   for (int64_t k = 0; k < layer.in; ++k)
                     for (int64_t n = 0; n < layer.out; ++n)
                       place(set, k, n, layer.codes[static_cast<size_t>(n * layer.in + k)]);
                 }));
  checkpoint.add(name + ".qzeros", DType::kI32, {layer.groups(), columns},
                 pack_bits(layer.groups(), columns, [&](const auto& set) {
                   for (int64_t g = 0; g < layer.groups(); ++g)
                     for (int64_t n = 0; n < layer.out; ++n)
                       place(set, g, n, layer.zeros[static_cast<size_t>(g * layer.out + n)]);
                 }));
  std::vector<uint16_t> scales;
  for (float scale : layer.scales) scales.push_back(float_to_f16(scale));
  checkpoint.add(name + ".scales", DType::kF16, {layer.groups(), layer.out}, scales);
}

}  // namespace quaver
