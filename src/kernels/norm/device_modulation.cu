// One block per row, which its threads hold in registers, eight values at a time: a row is read once.
#include <algorithm>

#include "kernels/device_values.cuh"
#include "kernels/norm/device_modulation.h"

namespace quaver::kernels {
namespace {

constexpr int kEight = 8, kHeld = 4, kMaxThreads = 1024;

template <class T>
using Eight = Values<T, kEight>;

// Where one block works.
template <class T>
struct Row {
  __device__ Row(const DeviceModulation& rows)
      : begin(static_cast<int64_t>(blockIdx.x) * rows.width),
        condition(blockIdx.x / rows.tokens * rows.condition_stride),
        eights(static_cast<int>(rows.width / kEight)) {}
  __device__ static Eight<T> load(const void* from, int64_t begin, int eight) {
    return *reinterpret_cast<const Eight<T>*>(static_cast<const T*>(from) + begin + eight * kEight);
  }
  __device__ static void store(void* to, int64_t begin, int eight, const Eight<T>& values) {
    *reinterpret_cast<Eight<T>*>(static_cast<T*>(to) + begin + eight * kEight) = values;
  }
  int64_t begin, condition;
  int eights;
};

// What all threads of the block get. Not twice without a barrier in between.
__device__ float block_sum(float x, float* of_warps) {
  x = warp_sum(x);
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = x;
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < static_cast<int>(blockDim.x) / kWarp; ++warp) sum += of_warps[warp];
  return sum;
}

template <class T>
__global__ void modulated_norm(DeviceModulatedNorm args) {
  __shared__ float sums[kMaxThreads / kWarp], squares[kMaxThreads / kWarp];
  const Row<T> row(args.rows);
  Eight<T> held[kHeld];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int eight = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (eight >= row.eights) break;
    held[i] = row.load(args.rows.x, row.begin, eight);
#pragma unroll
    for (int j = 0; j < kEight; ++j) sum += to_float(held[i].at[j]);
  }
  const float width = static_cast<float>(args.rows.width), mean = block_sum(sum, sums) / width;
  float square = 0;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    if (static_cast<int>(threadIdx.x + i * blockDim.x) >= row.eights) break;
#pragma unroll
    for (int j = 0; j < kEight; ++j) {
      const float distance = to_float(held[i].at[j]) - mean;
      square = fmaf(distance, distance, square);
    }
  }
  const float factor = rsqrtf(block_sum(square, squares) / width + args.epsilon);
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int eight = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (eight >= row.eights) break;
    const Eight<T> shift = row.load(args.shift, row.condition, eight),
                   scale = row.load(args.scale, row.condition, eight);
    Eight<T> y;
#pragma unroll
    for (int j = 0; j < kEight; ++j)
      y.at[j] = from_float<T>(
          fmaf((to_float(held[i].at[j]) - mean) * factor, 1 + to_float(scale.at[j]), to_float(shift.at[j])));
    row.store(args.rows.y, row.begin, eight, y);
  }
}

template <class T>
__global__ void gated_sum(DeviceGatedSum args) {
  const Row<T> row(args.rows);
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int eight = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (eight >= row.eights) break;
    const Eight<T> x = row.load(args.rows.x, row.begin, eight),
                   added = row.load(args.added, row.begin, eight),
                   gate = row.load(args.gate, row.condition, eight);
    Eight<T> y;
#pragma unroll
    for (int j = 0; j < kEight; ++j)
      y.at[j] = from_float<T>(fmaf(to_float(gate.at[j]), to_float(added.at[j]), to_float(x.at[j])));
    row.store(args.rows.y, row.begin, eight, y);
  }
}

template <class Launch>
void launch_rows(const DeviceModulation& rows, const char* what, const Launch& launch) {
  const int64_t wanted = (rows.width / kEight + kHeld - 1) / kHeld;
  const auto threads =
      static_cast<unsigned>(std::min<int64_t>((wanted + kWarp - 1) / kWarp * kWarp, kMaxThreads));
  const auto blocks = static_cast<unsigned>(rows.batch * rows.tokens);
  if (blocks == 0) return;
  launch(blocks, threads);
  check_launch(what);
}

}  // namespace

bool device_modulation_takes(int64_t width) {
  return width > 0 && width % kEight == 0 && width <= int64_t{kEight} * kHeld * kMaxThreads;
}

void modulated_norm_on_device(const DeviceModulatedNorm& args, void* stream) {
  with_device_float(args.rows.type, [&](auto zero) {
    launch_rows(args.rows, "a modulated norm", [&](unsigned blocks, unsigned threads) {
      modulated_norm<decltype(zero)><<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(args);
    });
  });
}

void gated_sum_on_device(const DeviceGatedSum& args, void* stream) {
  with_device_float(args.rows.type, [&](auto zero) {
    launch_rows(args.rows, "a gated sum", [&](unsigned blocks, unsigned threads) {
      gated_sum<decltype(zero)><<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(args);
    });
  });
}

}  // namespace quaver::kernels
