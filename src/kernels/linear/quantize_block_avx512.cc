// Activations to 8 bits with AVX-512.
#include "kernels/linear/quantize_block_body.h"

namespace quaver::kernels {

QuantizedBlock quantize_block_avx512(const float* x, int64_t n, int8_t* codes) {
  return quantize_block(x, n, codes);
}

}  // namespace quaver::kernels
