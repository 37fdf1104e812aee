// Attention tiles with AVX2.
#include "kernels/attention/tile_body.h"

namespace quaver::kernels {

void attention_tile_avx2(const AttentionTile& tile) { attention_tile(tile); }

void store_kv_row_avx2(char* target, const float* row, int64_t n, KvElement element, float scale) {
  store_kv_row(target, row, n, element, scale);
}

}  // namespace quaver::kernels
