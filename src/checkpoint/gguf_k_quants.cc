#include "checkpoint/gguf_k_quants.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "checkpoint/little_endian.h"
#include "numerics/half.h"

namespace quaver {
namespace {

constexpr size_t kSuperBlock = 256;
using Codes = std::array<uint8_t, kSuperBlock>;

// To the nearest integer, ties to even, for magnitudes below 2^22.
float nearest(float value) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: no bits are left for a fraction
  return (value + kShift) - kShift;
}

float nearest_code(float value, float low, float high) { return std::clamp(nearest(value), low, high); }

float as_half(float value) { return f16_to_float(float_to_f16(value)); }

// A group of 32 with codes from 0 to `top` under w = scale * code - min.
struct RangeSearch {
  float top;
  float first;  // the first range tried holds (top + first) steps, the next 0.1 more
  int more;     // ranges tried after the first
};
struct RangeFit {
  float scale = 0, min = 0;
};
using Group = std::array<float, 32>;

// What one assignment of codes says about scale and minimum, by weighted least squares.
struct RangeSums {
  float weight = 0, x = 0;  // of the group
  float code = 0, code2 = 0, code_x = 0;

  bool fit(float& scale, float& low) const {
    const float determinant = weight * code2 - code * code;
    if (!(determinant > 0)) return false;
    scale = (weight * code_x - x * code) / determinant;
    low = (code2 * x - code * code_x) / determinant;
    if (low > 0) {
      low = 0;
      scale = code_x / code2;
    }
    return true;
  }
};

float range_error(const float* x, const Group& weight, const Group& code, float scale, float low) {
  float error = 0;
  for (size_t i = 0; i < code.size(); ++i) {
    const float difference = scale * code[i] + low - x[i];
    error += weight[i] * (difference * difference);
  }
  return error;
}

RangeFit search_range(const float* x, const Group& weight, const RangeSearch& search, uint8_t* codes) {
  float low = x[0], high = x[0];
  RangeSums group{.weight = weight[0], .x = weight[0] * x[0]};
  for (size_t i = 1; i < weight.size(); ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
    group.weight += weight[i];
    group.x += weight[i] * x[i];
  }
  low = std::min(low, 0.0f);
  std::fill_n(codes, weight.size(), uint8_t{0});
  if (high == low || !std::isfinite(search.top / (high - low))) return {0, -low};
  // Each range tried begins at the best minimum so far.
  auto assign = [&](float inverse, Group& code) {
    for (size_t i = 0; i < code.size(); ++i) code[i] = nearest_code(inverse * (x[i] - low), 0, search.top);
  };
  Group best, code;
  assign(search.top / (high - low), best);
  float scale = 1 / (search.top / (high - low)), least = range_error(x, weight, best, scale, low);
  for (int step = 0; step <= search.more; ++step) {
    assign((search.first + 0.1f * static_cast<float>(step) + search.top) / (high - low), code);
    RangeSums sums = group;
    for (size_t i = 0; i < code.size(); ++i) {
      sums.code += weight[i] * code[i];
      sums.code2 += weight[i] * code[i] * code[i];
      sums.code_x += weight[i] * code[i] * x[i];
    }
    float new_scale = 0, new_low = 0;
    if (!sums.fit(new_scale, new_low)) continue;
    const float error = range_error(x, weight, code, new_scale, new_low);
    if (!(error < least)) continue;
    best = code, least = error, scale = new_scale, low = new_low;
  }
  std::ranges::transform(best, codes, [](float c) { return static_cast<uint8_t>(c); });
  return {scale, -low};
}

// Large values count for more.
Group range_weights(const float* x) {
  float squares = 0;
  Group weight;
  for (size_t i = 0; i < weight.size(); ++i) squares += x[i] * x[i];
  const float typical = std::sqrt(squares / static_cast<float>(weight.size()));
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = typical + std::abs(x[i]);
  return weight;
}

// Six bits each, as gguf_block.cc reads them.
void put_scale_min(std::byte* out, size_t group, unsigned scale, unsigned min) {
  if (group < 4) {
    out[group] |= static_cast<std::byte>(scale);
    out[group + 4] |= static_cast<std::byte>(min);
    return;
  }
  out[group + 4] = static_cast<std::byte>((scale & 15) | (min & 15) << 4);
  out[group - 4] |= static_cast<std::byte>(scale >> 4 << 6);
  out[group] |= static_cast<std::byte>(min >> 4 << 6);
}

// Two halves and twelve bytes; the codes under what those hold.
void encode_ranges(const float* in, const RangeSearch& search, std::byte* out, Codes& codes) {
  std::array<RangeFit, 8> fits;
  float max_scale = 0, max_min = 0;
  for (size_t g = 0; g < fits.size(); ++g) {
    const float* x = in + 32 * g;
    fits[g] = search_range(x, range_weights(x), search, codes.data() + 32 * g);
    max_scale = std::max(max_scale, fits[g].scale);
    max_min = std::max(max_min, fits[g].min);
  }
  const float to_scale = max_scale > 0 ? 63.0f / max_scale : 0.0f,
              to_min = max_min > 0 ? 63.0f / max_min : 0.0f;
  const float d = max_scale / 63.0f, dmin = max_min / 63.0f;
  write_little_endian(out, float_to_f16(d), 2);
  write_little_endian(out + 2, float_to_f16(dmin), 2);
  std::fill_n(out + 4, 12, std::byte{0});
  for (size_t g = 0; g < fits.size(); ++g) {
    const float scale = nearest_code(to_scale * fits[g].scale, 0, 63),
                min = nearest_code(to_min * fits[g].min, 0, 63);
    put_scale_min(out + 4, g, static_cast<unsigned>(scale), static_cast<unsigned>(min));
    const float step = as_half(d) * scale, offset = as_half(dmin) * min;
    if (step == 0) continue;
    for (size_t i = 32 * g; i < 32 * (g + 1); ++i)
      codes[i] = static_cast<uint8_t>(nearest_code((in[i] + offset) / step, 0, search.top));
  }
}

// Groups 2j and 2j + 1 in the halves of 32 bytes.
void put_nibbles(const Codes& codes, std::byte* out) {
  for (size_t pair = 0; pair < 4; ++pair)
    for (size_t p = 0; p < 32; ++p)
      out[32 * pair + p] =
          static_cast<std::byte>((codes[64 * pair + p] & 15) | (codes[64 * pair + 32 + p] & 15) << 4);
}

// A group of 16 with codes from 0 to 63 under w = scale * (code - 32), by the squares of its values.
float search_symmetric(const float* x, uint8_t* codes) {
  constexpr size_t kGroup = 16;
  constexpr float kHalf = 32, kSmallest = 1e-15f;
  float largest = 0;
  for (size_t i = 0; i < kGroup; ++i)
    if (std::abs(x[i]) > std::abs(largest)) largest = x[i];
  std::fill_n(codes, kGroup, uint8_t{0});
  if (std::abs(largest) < kSmallest) return 0;
  float sum_x = 0, sum_codes = 0;
  auto code_of = [&](float value, float inverse) { return nearest_code(inverse * value, -kHalf, kHalf - 1); };
  auto sum_up = [&](float inverse) {
    sum_x = sum_codes = 0;
    for (size_t i = 0; i < kGroup; ++i) {
      const float code = code_of(x[i], inverse), weight = x[i] * x[i];
      sum_x += weight * x[i] * code;
      sum_codes += weight * code * code;
    }
  };
  float chosen = -kHalf / largest;
  sum_up(chosen);
  float scale = sum_codes != 0 ? sum_x / sum_codes : 0.0f, best = scale * sum_x;
  for (int step = -9; step <= 9; ++step) {
    const float inverse = -(kHalf + 0.1f * static_cast<float>(step)) / largest;
    if (step != 0) sum_up(inverse);
    if (step == 0 || !(sum_codes > 0 && sum_x * sum_x > best * sum_codes)) continue;
    scale = sum_x / sum_codes;
    best = scale * sum_x;
    chosen = inverse;
  }
  for (size_t i = 0; i < kGroup; ++i) codes[i] = static_cast<uint8_t>(code_of(x[i], chosen) + kHalf);
  return scale;
}

}  // namespace

void encode_q4_k(const float* in, std::byte* out) {
  Codes codes;
  encode_ranges(in, {.top = 15, .first = -1.0f, .more = 20}, out, codes);
  put_nibbles(codes, out + 16);
}

void encode_q5_k(const float* in, std::byte* out) {
  Codes codes;
  encode_ranges(in, {.top = 31, .first = -0.5f, .more = 15}, out, codes);
  for (size_t p = 0; p < 32; ++p) {
    unsigned high = 0;
    for (size_t g = 0; g < 8; ++g) high |= static_cast<unsigned>(codes[32 * g + p] >> 4) << g;
    out[16 + p] = static_cast<std::byte>(high);
  }
  put_nibbles(codes, out + 48);
}

void encode_q6_k(const float* in, std::byte* out) {
  std::array<float, 16> scales;
  Codes codes;
  float largest = 0;
  for (size_t g = 0; g < scales.size(); ++g) {
    scales[g] = search_symmetric(in + 16 * g, codes.data() + 16 * g);
    if (std::abs(scales[g]) > std::abs(largest)) largest = scales[g];
  }
  std::fill_n(out, 210, std::byte{0});
  if (std::abs(largest) < 1e-15f) return;
  const float inverse = -128.0f / largest, d = as_half(1 / inverse);
  write_little_endian(out + 208, float_to_f16(d), 2);
  for (size_t i = 0; i < kSuperBlock; ++i) {
    const size_t group = i / 16, within = i % 128;
    const float scale = std::min(127.0f, nearest(inverse * scales[group])), step = d * scale;
    const unsigned bits =
        step == 0 ? codes[i] : static_cast<unsigned>(nearest_code(in[i] / step, -32, 31) + 32);
    out[192 + group] = static_cast<std::byte>(static_cast<int8_t>(scale));
    out[i / 128 * 64 + within % 64] |= static_cast<std::byte>((bits & 15) << (within / 64 * 4));
    out[128 + i / 128 * 32 + within % 32] |= static_cast<std::byte>(bits >> 4 << (within / 32 * 2));
  }
}

}  // namespace quaver
