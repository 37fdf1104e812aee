// One block per token. Each head has a group of lanes, 2 to 32 of them, that hold eight values each.
#include <algorithm>

#include "kernels/device_values.cuh"
#include "kernels/rope/device_heads.h"

namespace quaver::kernels {
namespace {

constexpr int kEight = 8, kPairs = kEight / 2, kMaxThreads = 128;

template <class T>
using Eight = Values<T, kEight>;
using Four = Values<float, kPairs>;

// Of the lanes that share a head; what all of them get.
__device__ float group_sum(float x, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

// What a lane needs of the token and of its place in every head.
struct Lane {
  __device__ Lane(const DeviceHeads& args, int value) {
    const int64_t pair = (blockIdx.x * args.head_dim + value) / 2;
    *reinterpret_cast<Four*>(cos) = *reinterpret_cast<const Four*>(args.cos + pair);
    *reinterpret_cast<Four*>(sin) = *reinterpret_cast<const Four*>(args.sin + pair);
    for (int i = 0; i < kEight; i += kPairs)
      *reinterpret_cast<Four*>(weight + i) = *reinterpret_cast<const Four*>(args.weight + value + i);
  }
  alignas(16) float cos[kPairs], sin[kPairs], weight[kEight];
};

template <class T>
__device__ Eight<T> turned(const Eight<T>& x, float factor, const Lane& lane) {
  Eight<T> y;
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const float a = to_float(x.at[2 * i]) * factor * lane.weight[2 * i],
                b = to_float(x.at[2 * i + 1]) * factor * lane.weight[2 * i + 1];
    y.at[2 * i] = from_float<T>(a * lane.cos[i] - b * lane.sin[i]);
    y.at[2 * i + 1] = from_float<T>(b * lane.cos[i] + a * lane.sin[i]);
  }
  return y;
}

template <class T>
__global__ void turn_heads(DeviceHeads args, int lanes) {
  const int heads = static_cast<int>(args.heads), dim = static_cast<int>(args.head_dim),
            value = static_cast<int>(threadIdx.x) % lanes * kEight,
            step = static_cast<int>(blockDim.x) / lanes;
  const T* x = static_cast<const T*>(args.x) + blockIdx.y * args.x_batch_stride +
               blockIdx.x * args.x_token_stride + value;
  T* y =
      static_cast<T*>(args.y) + blockIdx.y * args.y_batch_stride + blockIdx.x * args.y_token_stride + value;
  const bool holds = value < dim;
  const Lane lane(args, holds ? value : 0);
  // Every lane goes round as often as the others: they sum together.
  for (int first = 0; first < heads; first += step) {
    const int head = first + static_cast<int>(threadIdx.x) / lanes;
    const bool works = holds && head < heads;
    Eight<T> held;
    float square = 0;
    if (works) {
      held = *reinterpret_cast<const Eight<T>*>(x + head * dim);
#pragma unroll
      for (int i = 0; i < kEight; ++i) square = fmaf(to_float(held.at[i]), to_float(held.at[i]), square);
    }
    const float factor = rsqrtf(group_sum(square, lanes) / static_cast<float>(dim) + args.epsilon);
    if (works) *reinterpret_cast<Eight<T>*>(y + head * dim) = turned(held, factor, lane);
  }
}

int lanes_of(int64_t head_dim) {
  int lanes = 1;
  while (lanes * kEight < head_dim) lanes *= 2;
  return lanes;
}

}  // namespace

bool turn_heads_takes(int64_t head_dim) {
  return head_dim > 0 && head_dim % kEight == 0 && head_dim <= kEight * kWarp;
}

void turn_heads_on_device(const DeviceHeads& args, void* stream) {
  if (args.batch * args.tokens * args.heads == 0) return;
  const int lanes = lanes_of(args.head_dim);
  const auto threads =
      static_cast<unsigned>(std::min<int64_t>((args.heads * lanes + kWarp - 1) / kWarp * kWarp, kMaxThreads));
  const dim3 blocks(static_cast<unsigned>(args.tokens), static_cast<unsigned>(args.batch));
  with_device_float(args.type, [&](auto zero) {
    turn_heads<decltype(zero)><<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(args, lanes);
  });
  check_launch("turning heads");
}

}  // namespace quaver::kernels
