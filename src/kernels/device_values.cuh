// Inside CUDA kernels: values of the three float types, a few of them at a time; and the check after a
// launch.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "base/error.h"
#include "kernels/device.h"

namespace quaver::kernels {

constexpr int kWarp = 32;

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __half from_float<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// Read and written at once: at most 16 bytes an access.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Values {
  T at[kCount];
};

// What all lanes of a warp get.
__device__ inline float warp_sum(float x) {
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

inline void check_launch(const char* what) {
  cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) throw Error(ErrorKind::kInternal, cat(what, ": ", cudaGetErrorString(status)));
}

// body(a zero of the type).
template <class Body>
void with_device_float(DeviceFloat type, const Body& body) {
  if (type == DeviceFloat::kF32) return body(float{});
  if (type == DeviceFloat::kF16) return body(__half{});
  body(__nv_bfloat16{});
}

}  // namespace quaver::kernels
