#include "kernels/rope/rope_bf16.h"

#include <algorithm>

#include "kernels/isa.h"
#include "kernels/parallel.h"
#include "kernels/rope/rope_bf16_head.h"
#include "numerics/half.h"

namespace quaver::kernels {

void rope_bf16_head_scalar(const RopeBf16Head& head) {
  for (int64_t i = 0; i < head.half; ++i) {
    float a = bf16_to_float(head.x[i]), b = bf16_to_float(head.x[i + head.half]);
    float cos = head.cos[i], sin = head.sign * head.sin[i];
    head.y[i] = float_to_bf16(a * cos - b * sin);
    head.y[i + head.half] = float_to_bf16(b * cos + a * sin);
  }
}

void apply_rope_bf16(const RopeBf16Args& args, const CpuFeatures& cpu) {
  auto* rotate = pick_isa(cpu, rope_bf16_head_scalar, rope_bf16_head_avx2, rope_bf16_head_avx512);
  int64_t half = args.rotary_dim / 2, width = args.heads * args.head_dim;
  auto rotate_token = [&](int64_t t) {
    for (int64_t h = 0; h < args.heads; ++h) {
      const uint16_t* x = args.x + t * args.x_stride + h * args.head_dim;
      uint16_t* y = args.y + t * width + h * args.head_dim;
      rotate({x, y, args.cos + t * half, args.sin + t * half, half, args.backwards ? -1.0f : 1.0f});
      std::copy(x + args.rotary_dim, x + args.head_dim, y + args.rotary_dim);
    }
  };
  parallel_rows(args.pool, args.tokens, row_grain(width), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) rotate_token(t);
  });
}

}  // namespace quaver::kernels
