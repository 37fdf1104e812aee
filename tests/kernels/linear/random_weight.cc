#include "kernels/linear/random_weight.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "kernels/linear/codes.h"
#include "kernels/support.h"
#include "numerics/element_value.h"
#include "numerics/half.h"
#include "numerics/scale_value.h"

namespace quaver::kernels {
namespace {

void write_code(std::vector<std::byte>& codes, int64_t row_begin, int64_t index, int bits, unsigned code) {
  for (int b = 0; b < bits; ++b) {
    int64_t bit = index * bits + b;
    if ((code >> b) & 1u) codes[static_cast<size_t>(row_begin + bit / 8)] |= std::byte(1u << (bit % 8));
  }
}

std::vector<std::byte> random_scale(ScaleCodec codec, bool nothing, Random& random) {
  std::vector<std::byte> stored(static_cast<size_t>(scale_codec_info(codec).bytes));
  if (stored.size() == 1) {
    // Some hundredths around one, where the codec has them.
    int lowest = codec == ScaleCodec::kE8M0 ? 120 : 0, count = codec == ScaleCodec::kE8M0 ? 12 : 256;
    if (codec == ScaleCodec::kU6 || codec == ScaleCodec::kU4) count = codec == ScaleCodec::kU6 ? 64 : 16;
    do stored[0] = static_cast<std::byte>(lowest + random.below(count));
    while (!std::isfinite(scale_value(codec, stored.data())));
    return stored;
  }
  float value = nothing ? 0.0f : random.normal() * 0.01f;  // negative ones too, and groups of nothing
  uint16_t half = codec == ScaleCodec::kF16 ? float_to_f16(value) : float_to_bf16(value);
  std::memcpy(stored.data(), codec == ScaleCodec::kF32 ? static_cast<void*>(&value) : &half, stored.size());
  return stored;
}

// Null where the shape has no such second level.
std::optional<int64_t> share_of(Second second, int64_t count, int64_t groups) {
  int64_t share = second == Second::kNone || second == Second::kGlobal || second == Second::kDivisor ? count
                  : second == Second::kRow                                                           ? groups
                  : second == Second::kTwoGroups                                                     ? 2
                                                                                                     : 3;
  return count % share == 0 ? std::optional(share) : std::nullopt;
}

Level random_level(int64_t count, int64_t groups, const Options& o, Random& random) {
  Level level = {.codec = o.codec};
  for (int64_t i = 0; i < count; ++i)
    for (std::byte byte : random_scale(o.codec, i % 7 == 3, random)) level.codes.push_back(byte);
  std::optional<int64_t> share = share_of(o.second, count, groups);
  if (o.second == Second::kNone || !share) return level;
  level.share = *share;
  level.divides = o.second == Second::kDivisor;
  for (int64_t i = 0; i < count / level.share; ++i) level.super.push_back(0.3f + std::abs(random.normal()));
  return level;
}

unsigned random_code(Element element, Random& random) {
  auto draw = [&] { return static_cast<uint8_t>(random.below(1 << element_info(element).bits)); };
  uint8_t code = draw();
  while (!std::isfinite(element_value(element, code))) code = draw();
  return code;
}

}  // namespace

ScaleView Level::view() const {
  return {codec, codes.empty() ? nullptr : codes.data(), super.empty() ? nullptr : super.data(), share,
          divides};
}

float Level::at(int64_t i) const {
  float value = scale_value(codec, codes.data() + i * scale_codec_info(codec).bytes);
  if (super.empty()) return value;
  float above = super[static_cast<size_t>(i / share)];
  return divides ? value / above : value * above;
}

WeightView Weight::view() const {
  return {.problem = problem,
          .codes = codes,
          .scales = scales.view(),
          .zeros = zeros.empty() ? nullptr : zeros.data(),
          .mins = mins.view(),
          .permutation = permutation.empty() ? nullptr : permutation.data(),
          .input_multiplier = multiplier.empty() ? nullptr : multiplier.data()};
}

Weight plain_weight(int64_t n, int64_t k, DType dtype, uint64_t seed) {
  Random random(seed);
  Weight w;
  w.problem = {.n = n, .k = k, .plain = dtype};
  w.codes.resize(static_cast<size_t>(n * k * dtype_info(dtype).block_bytes));
  for (int64_t i = 0; i < n * k; ++i) {
    float value = random.normal();
    if (dtype == DType::kF32) {
      std::memcpy(w.codes.data() + i * 4, &value, 4);
    } else {
      uint16_t bits = dtype == DType::kF16 ? float_to_f16(value) : float_to_bf16(value);
      std::memcpy(w.codes.data() + i * 2, &bits, 2);
      value = dtype == DType::kF16 ? f16_to_float(bits) : bf16_to_float(bits);
    }
    w.dense.push_back(value);
  }
  w.terms = w.dense;
  return w;
}

Weight quantized_weight(int64_t n, int64_t k, const Options& o, uint64_t seed) {
  Random random(seed);
  const ElementInfo& element = element_info(o.element);
  int64_t groups = (k + o.group - 1) / o.group, count = (n + o.group_rows - 1) / o.group_rows * groups;
  int64_t row_bytes = code_row_bytes(k, element.bits);
  Weight w;
  w.problem = {.n = n,
               .k = k,
               .quantized = true,
               .element = o.element,
               .group = o.group,
               .group_rows = o.group_rows,
               .has_zeros = o.zeros,
               .has_mins = o.mins,
               .has_permutation = o.permuted,
               .exact_activations = o.exact};
  w.codes.resize(static_cast<size_t>(n * row_bytes));
  w.scales = random_level(count, groups, o, random);
  if (o.mins) w.mins = random_level(count, groups, o, random);
  for (int64_t g = 0; o.zeros && g < count; ++g)
    w.zeros.push_back(static_cast<uint8_t>(random.below(1 << element.bits)));
  if (o.permuted) {
    w.permutation.resize(static_cast<size_t>(k));
    std::iota(w.permutation.begin(), w.permutation.end(), 0);
    std::shuffle(w.permutation.begin(), w.permutation.end(), random.engine());
  }
  if (o.multiplier) w.multiplier = random.normals(k);
  double middle = element.integer && !o.mins ? 1 << (element.bits - 1) : 0;
  for (int64_t r = 0; r < n; ++r)
    for (int64_t i = 0; i < k; ++i) {
      unsigned code = random_code(o.element, random);
      write_code(w.codes, r * row_bytes, i, element.bits, code);
      int64_t channel = o.permuted ? w.permutation[static_cast<size_t>(i)] : i;
      int64_t g = r / o.group_rows * groups + channel / o.group;
      double zero = o.zeros ? w.zeros[static_cast<size_t>(g)] : middle;
      double product = w.scales.at(g) * (element_value(o.element, static_cast<uint8_t>(code)) - zero);
      double min = o.mins ? w.mins.at(g) : 0,
             factor = o.multiplier ? w.multiplier[static_cast<size_t>(i)] : 1;
      w.dense.push_back((product - min) * factor);
      w.terms.push_back((std::abs(product) + std::abs(min)) * factor);
    }
  return w;
}

}  // namespace quaver::kernels
