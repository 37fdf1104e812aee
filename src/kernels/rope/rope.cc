#include "kernels/rope/rope.h"

#include "kernels/isa.h"
#include "kernels/parallel.h"
#include "kernels/rope/rope_head.h"

namespace quaver::kernels {

void rope_head_scalar(float* x, const float* cos, const float* sin, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    float a = x[i], b = x[i + half];
    x[i] = a * cos[i] - b * sin[i];
    x[i + half] = b * cos[i] + a * sin[i];
  }
}

void apply_rope(const RopeArgs& args, const CpuFeatures& cpu) {
  auto* rotate = pick_isa(cpu, rope_head_scalar, rope_head_avx2, rope_head_avx512);
  int64_t half = args.rotary_dim / 2;
  parallel_rows(args.pool, args.tokens, row_grain(args.heads * args.head_dim),
                [&](int64_t begin, int64_t end) {
                  for (int64_t t = begin; t < end; ++t) {
                    const float* cos = args.cos + args.positions[t] * half;
                    const float* sin = args.sin + args.positions[t] * half;
                    for (int64_t h = 0; h < args.heads; ++h)
                      rotate(args.x + t * args.token_stride + h * args.head_dim, cos, sin, half);
                  }
                });
}

}  // namespace quaver::kernels
