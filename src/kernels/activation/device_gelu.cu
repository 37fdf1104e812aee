// One thread per eight values of a row of the result.
#include "kernels/activation/device_gelu.h"
#include "kernels/device_values.cuh"

namespace quaver::kernels {
namespace {

constexpr int kEight = 8, kThreads = 128;

template <class T>
using Eight = Values<T, kEight>;

// 0.5 x (1 + tanh(u)) = x / (1 + exp(-2 u)), with u = sqrt(2 / pi) (x + 0.044715 x^3).
__device__ float gelu_tanh(float x) {
  const float twice = 1.5957691216f * (x + 0.044715f * x * x * x);
  return x / (1 + __expf(-twice));
}

template <class T>
__global__ void gelu_beside(DeviceGeluBeside args) {
  const int eight = static_cast<int>(blockIdx.y * kThreads + threadIdx.x),
            of_x = static_cast<int>(args.width / kEight),
            of_inner = static_cast<int>(args.inner_width / kEight);
  if (eight >= of_x + of_inner) return;
  const int64_t row = blockIdx.x;
  auto* y = static_cast<Eight<T>*>(args.y) + row * (of_x + of_inner) + eight;
  if (eight < of_x) {
    *y = static_cast<const Eight<T>*>(args.x)[row * of_x + eight];
    return;
  }
  Eight<T> values = static_cast<const Eight<T>*>(args.inner)[row * of_inner + eight - of_x];
#pragma unroll
  for (int i = 0; i < kEight; ++i) values.at[i] = from_float<T>(gelu_tanh(to_float(values.at[i])));
  *y = values;
}

}  // namespace

bool device_gelu_beside_takes(int64_t width, int64_t inner_width) {
  return width % kEight == 0 && inner_width % kEight == 0;
}

void gelu_beside_on_device(const DeviceGeluBeside& args, void* stream) {
  if (args.rows == 0) return;
  const int64_t eights = (args.width + args.inner_width) / kEight;
  const dim3 blocks(static_cast<unsigned>(args.rows),
                    static_cast<unsigned>((eights + kThreads - 1) / kThreads));
  with_device_float(args.type, [&](auto zero) {
    gelu_beside<decltype(zero)><<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(args);
  });
  check_launch("a GELU");
}

}  // namespace quaver::kernels
