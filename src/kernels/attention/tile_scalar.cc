// The scalar reference of an attention tile.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/attention/tile.h"
#include "numerics/e4m3fn.h"
#include "numerics/half.h"

namespace quaver::kernels {
namespace {

float load(const char* row, int64_t i, KvElement element) {
  if (element == KvElement::kF32) return reinterpret_cast<const float*>(row)[i];
  if (element == KvElement::kE4M3FN) return e4m3fn_to_float(reinterpret_cast<const uint8_t*>(row)[i]);
  uint16_t bits = reinterpret_cast<const uint16_t*>(row)[i];
  return element == KvElement::kF16 ? f16_to_float(bits) : bf16_to_float(bits);
}

double score(const AttentionTile& tile, const float* q, int64_t position) {
  const char* key = tile.keys.row(position);
  double dot = 0;
  for (int64_t i = 0; i < tile.head_dim; ++i) dot += static_cast<double>(q[i]) * load(key, i, tile.element);
  dot *= tile.scale;
  return tile.softcap > 0 ? tile.softcap * std::tanh(dot / tile.softcap) : dot;
}

void run_row(const AttentionTile& tile, int64_t r) {
  const float* q = tile.q + r / tile.group * tile.q_stride + r % tile.group * tile.head_dim;
  int64_t position = tile.first_position + r / tile.group;
  int64_t begin = tile.window > 0 ? std::max(tile.begin, position - tile.window + 1) : tile.begin;
  int64_t end = std::min(tile.end, position + 1);
  if (begin >= end) return;
  std::vector<double> scores, out(static_cast<size_t>(tile.head_dim));
  for (int64_t p = begin; p < end; ++p) scores.push_back(score(tile, q, p));
  double max = *std::max_element(scores.begin(), scores.end()), sum = 0;
  for (int64_t p = begin; p < end; ++p) {
    double weight = std::exp(scores[static_cast<size_t>(p - begin)] - max);
    sum += weight;
    const char* value = tile.values.row(p);
    for (int64_t i = 0; i < tile.head_dim; ++i)
      out[static_cast<size_t>(i)] += weight * load(value, i, tile.element);
  }
  tile.max[r] = static_cast<float>(max);
  // The state is relative to the rounded maximum.
  double shift = std::exp(max - static_cast<double>(tile.max[r]));
  tile.sum[r] = static_cast<float>(sum * shift);
  for (int64_t i = 0; i < tile.head_dim; ++i)
    tile.out[r * tile.out_stride + i] = static_cast<float>(out[static_cast<size_t>(i)] * shift);
}

}  // namespace

void attention_tile_scalar(const AttentionTile& tile) {
  for (int64_t r = 0; r < tile.tokens * tile.group; ++r) run_row(tile, r);
}

void store_kv_row_scalar(char* target, const float* row, int64_t n, KvElement element, float scale) {
  if (element == KvElement::kE4M3FN) {
    for (int64_t i = 0; i < n; ++i) target[i] = static_cast<char>(float_to_e4m3fn(row[i] / scale));
    return;
  }
  if (element == KvElement::kF32) {
    std::memcpy(target, row, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  auto* out = reinterpret_cast<uint16_t*>(target);
  for (int64_t i = 0; i < n; ++i)
    out[i] = element == KvElement::kF16 ? float_to_f16(row[i]) : float_to_bf16(row[i]);
}

}  // namespace quaver::kernels
