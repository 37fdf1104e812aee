// One warp per head, two pairs a lane at a time.
#include "kernels/device_values.cuh"
#include "kernels/rope/device_heads.h"

namespace quaver::kernels {
namespace {

constexpr int kFour = 4, kHeld = 4, kWarpsPerBlock = 8;  // a lane holds up to 16 values of a head

template <class T>
using Four = Values<T, kFour>;

struct Pairs {
  float2 cos, sin;
};

template <class T>
__device__ Four<T> turned(const Four<T>& x, float factor, const float4& weight, const Pairs& by) {
  const float a0 = to_float(x.at[0]) * factor * weight.x, b0 = to_float(x.at[1]) * factor * weight.y,
              a1 = to_float(x.at[2]) * factor * weight.z, b1 = to_float(x.at[3]) * factor * weight.w;
  return {{from_float<T>(a0 * by.cos.x - b0 * by.sin.x), from_float<T>(b0 * by.cos.x + a0 * by.sin.x),
           from_float<T>(a1 * by.cos.y - b1 * by.sin.y), from_float<T>(b1 * by.cos.y + a1 * by.sin.y)}};
}

template <class T>
__global__ void turn_heads(DeviceHeads args) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kWarpsPerBlock + threadIdx.y;
  if (index >= args.batch * args.tokens * args.heads) return;
  const int64_t head = index % args.heads, row = index / args.heads, token = row % args.tokens,
                entry = row / args.tokens;
  const T* x = static_cast<const T*>(args.x) + entry * args.x_batch_stride + token * args.x_token_stride +
               head * args.head_dim;
  T* y = static_cast<T*>(args.y) + entry * args.y_batch_stride + token * args.y_token_stride +
         head * args.head_dim;
  const float *cos = args.cos + token * args.head_dim / 2, *sin = args.sin + token * args.head_dim / 2;
  const int fours = static_cast<int>(args.head_dim / kFour);
  Four<T> held[kHeld];
  float square = 0;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int four = static_cast<int>(threadIdx.x) + i * kWarp;
    if (four >= fours) break;
    held[i] = reinterpret_cast<const Four<T>*>(x)[four];
#pragma unroll
    for (int j = 0; j < kFour; ++j) square = fmaf(to_float(held[i].at[j]), to_float(held[i].at[j]), square);
  }
  const float factor = rsqrtf(warp_sum(square) / static_cast<float>(args.head_dim) + args.epsilon);
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int four = static_cast<int>(threadIdx.x) + i * kWarp;
    if (four >= fours) break;
    const Pairs by{reinterpret_cast<const float2*>(cos)[four], reinterpret_cast<const float2*>(sin)[four]};
    reinterpret_cast<Four<T>*>(y)[four] =
        turned(held[i], factor, reinterpret_cast<const float4*>(args.weight)[four], by);
  }
}

}  // namespace

bool turn_heads_takes(int64_t head_dim) {
  return head_dim > 0 && head_dim % kFour == 0 && head_dim <= kFour * kHeld * kWarp;
}

void turn_heads_on_device(const DeviceHeads& args, void* stream) {
  const int64_t warps = args.batch * args.tokens * args.heads;
  if (warps == 0) return;
  const auto blocks = static_cast<unsigned>((warps + kWarpsPerBlock - 1) / kWarpsPerBlock);
  with_device_float(args.type, [&](auto zero) {
    turn_heads<decltype(zero)>
        <<<blocks, dim3(kWarp, kWarpsPerBlock), 0, static_cast<cudaStream_t>(stream)>>>(args);
  });
  check_launch("turning heads");
}

}  // namespace quaver::kernels
