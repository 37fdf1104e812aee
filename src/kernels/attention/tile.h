// One tile of attention: some queries of one sequence and kv head against one stretch of its positions.
// Per instruction set; for attention.cc alone.
#pragma once

#include <cstdint>

namespace quaver::kernels {

enum class KvElement { kF32, kF16, kBF16, kE4M3FN };

// Where the keys or values of one sequence and kv head are: position p is row p % block_size of block
// table[p / block_size]; with no table there is one endless block.
struct KvRows {
  const char* base;
  const int32_t* table;
  int64_t block_size;
  int64_t block_stride, row_stride;  // bytes

  const char* row(int64_t position) const {
    if (table == nullptr) return base + position * row_stride;
    return base + table[position / block_size] * block_stride + position % block_size * row_stride;
  }
};

// Row r of the tile is query token r / group with head r % group. Before the tile runs, row r's state in
// `max`, `sum` and `out` is empty (-infinity, 0, 0).
struct AttentionTile {
  KvRows keys, values;
  KvElement element;
  int64_t head_dim;
  const float* q;    // first token's first head of this kv head
  int64_t q_stride;  // from token to token
  int64_t group;     // heads per kv head
  int64_t tokens;
  int64_t first_position;  // of token 0
  float scale, softcap;
  int64_t window;      // 0 = all
  int64_t begin, end;  // positions to look at; begin is a multiple of kChunk
  float* max;          // [rows] largest score seen; -infinity when none
  float* sum;          // [rows] sum of exp(score - max)
  float* out;          // [rows, out_stride] sum of exp(score - max) * value
  int64_t out_stride;  // head_dim rounded up to kPadding
  float* scratch;      // tile_scratch_floats
};

constexpr int64_t kChunk = 64;     // positions handled together
constexpr int64_t kPadding = 32;   // channels are padded to this
constexpr int64_t kTileRows = 96;  // rows of a tile, unless the heads of one token are more

constexpr int64_t padded_channels(int64_t head_dim) {
  return (head_dim + kPadding - 1) / kPadding * kPadding;
}

// Keys [head_dim][kChunk], values [kChunk][padded], scores [rows][kChunk], queries [rows][padded].
constexpr int64_t tile_scratch_floats(int64_t head_dim, int64_t rows) {
  return 2 * padded_channels(head_dim) * kChunk + rows * (kChunk + padded_channels(head_dim));
}

void attention_tile_scalar(const AttentionTile& tile);
void attention_tile_avx2(const AttentionTile& tile);
void attention_tile_avx512(const AttentionTile& tile);

// Converts one row of `n` floats into the cache's element; e4m3fn holds row / scale.
void store_kv_row_scalar(char* target, const float* row, int64_t n, KvElement element, float scale);
void store_kv_row_avx2(char* target, const float* row, int64_t n, KvElement element, float scale);
void store_kv_row_avx512(char* target, const float* row, int64_t n, KvElement element, float scale);

}  // namespace quaver::kernels
