// Integer weights on CUDA: one thread per code to expand, one warp per weight row to multiply.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "base/error.h"
#include "kernels/linear/device_integer.h"

namespace quaver::kernels {
namespace {

constexpr int kWarp = 32, kWarpsPerBlock = 4,
              kChunk = 8;  // a lane takes eight codes, `bits` whole bytes, at once
constexpr int64_t kMaxRows = 8;

__device__ float to_float(float x) { return x; }
__device__ float to_float(__half x) { return __half2float(x); }
__device__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
__device__ T from_float(float x);
template <>
__device__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __half from_float<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

__device__ float scale_at(const DeviceIntegerWeight& w, int64_t i) {
  if (w.scale_type == DeviceFloat::kF16) return __half2float(static_cast<const __half*>(w.scales)[i]);
  if (w.scale_type == DeviceFloat::kBF16)
    return __bfloat162float(static_cast<const __nv_bfloat16*>(w.scales)[i]);
  return static_cast<const float*>(w.scales)[i];
}

__device__ float zero_at(const DeviceIntegerWeight& w, int64_t i) {
  return w.zeros ? static_cast<float>(w.zeros[i]) : static_cast<float>(1 << (w.bits - 1));
}

template <class T>
__global__ void expand(DeviceIntegerWeight w, T* out) {
  int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= w.rows * w.cols) return;
  int64_t row = index / w.cols, col = index % w.cols, bit = col * w.bits;
  const uint8_t* bytes = w.codes + row * w.row_bytes + bit / 8;
  int shift = static_cast<int>(bit % 8);
  uint32_t pair = bytes[0];
  if (shift + w.bits > 8) pair |= static_cast<uint32_t>(bytes[1]) << 8;
  auto code = static_cast<float>((pair >> shift) & ((1u << w.bits) - 1u));
  int64_t group = row * w.groups + (w.channel ? w.channel[col] : col / w.group);
  out[index] = from_float<T>(scale_at(w, group) * (code - zero_at(w, group)));
}

// The eight codes of one chunk; `bits` bytes, which need not be aligned.
template <int kBits>
__device__ uint64_t load_codes(const uint8_t* bytes) {
  uint64_t word = 0;
#pragma unroll
  for (int i = 0; i < kBits; ++i) word |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  return word;
}
template <>
__device__ uint64_t load_codes<4>(const uint8_t* bytes) {
  return *reinterpret_cast<const uint32_t*>(bytes);
}
template <>
__device__ uint64_t load_codes<8>(const uint8_t* bytes) {
  return *reinterpret_cast<const uint64_t*>(bytes);
}

template <class T>
struct alignas(16) EightOf {
  T values[kChunk];
};

template <class T, int kBits, int kRows>
__global__ void multiply(DeviceIntegerWeight w, const T* x, T* y, const T* bias, int m) {
  int64_t row = static_cast<int64_t>(blockIdx.x) * kWarpsPerBlock + threadIdx.y;
  if (row >= w.rows) return;
  float sums[kRows] = {};
  const uint8_t* codes = w.codes + row * w.row_bytes;
  for (int64_t col = threadIdx.x * kChunk; col < w.cols; col += kWarp * kChunk) {
    uint64_t word = load_codes<kBits>(codes + col / kChunk * kBits);
    int64_t group = row * w.groups + col / w.group;
    float scale = scale_at(w, group), zero = zero_at(w, group), weight[kChunk];
#pragma unroll
    for (int i = 0; i < kChunk; ++i)
      weight[i] = scale * (static_cast<float>((word >> (kBits * i)) & ((1u << kBits) - 1u)) - zero);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= m) break;
      EightOf<T> in = *reinterpret_cast<const EightOf<T>*>(x + r * w.cols + col);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) sums[r] = fmaf(weight[i], to_float(in.values[i]), sums[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r >= m) break;
    float sum = sums[r];
    for (int step = kWarp / 2; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) y[r * w.rows + row] = from_float<T>(sum + (bias ? to_float(bias[row]) : 0.0f));
  }
}

void check_launch(const char* what) {
  cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) throw Error(ErrorKind::kInternal, cat(what, ": ", cudaGetErrorString(status)));
}

template <class T>
void run_expand(const DeviceIntegerWeight& w, void* out, cudaStream_t stream) {
  constexpr int kThreads = 256;
  auto blocks = static_cast<unsigned>((w.rows * w.cols + kThreads - 1) / kThreads);
  expand<T><<<blocks, kThreads, 0, stream>>>(w, static_cast<T*>(out));
  check_launch("expanding an integer weight");
}

template <class T, int kBits>
void run_multiply_bits(const DeviceIntegerWeight& w, const DeviceRows& rows, cudaStream_t stream) {
  auto blocks = static_cast<unsigned>((w.rows + kWarpsPerBlock - 1) / kWarpsPerBlock);
  dim3 threads(kWarp, kWarpsPerBlock);
  auto launch = [&](auto kernel) {
    kernel<<<blocks, threads, 0, stream>>>(w, static_cast<const T*>(rows.x), static_cast<T*>(rows.y),
                                           static_cast<const T*>(rows.bias), static_cast<int>(rows.m));
  };
  rows.m == 1   ? launch(multiply<T, kBits, 1>)
  : rows.m <= 4 ? launch(multiply<T, kBits, 4>)
                : launch(multiply<T, kBits, kMaxRows>);
  check_launch("multiplying by an integer weight");
}

template <class T>
void run_multiply(const DeviceIntegerWeight& w, const DeviceRows& rows, cudaStream_t stream) {
  switch (w.bits) {
    case 2:
      return run_multiply_bits<T, 2>(w, rows, stream);
    case 3:
      return run_multiply_bits<T, 3>(w, rows, stream);
    case 4:
      return run_multiply_bits<T, 4>(w, rows, stream);
    case 5:
      return run_multiply_bits<T, 5>(w, rows, stream);
    case 6:
      return run_multiply_bits<T, 6>(w, rows, stream);
    case 7:
      return run_multiply_bits<T, 7>(w, rows, stream);
    default:
      return run_multiply_bits<T, 8>(w, rows, stream);
  }
}

}  // namespace

bool device_integer_built() { return true; }

void expand_integer(const DeviceIntegerWeight& weight, DeviceFloat type, void* out, void* stream) {
  auto* on = static_cast<cudaStream_t>(stream);
  if (type == DeviceFloat::kF32) return run_expand<float>(weight, out, on);
  if (type == DeviceFloat::kF16) return run_expand<__half>(weight, out, on);
  run_expand<__nv_bfloat16>(weight, out, on);
}

bool multiplies_directly(const DeviceIntegerWeight& weight, int64_t m) {
  bool aligned = weight.bits == 4 ? weight.row_bytes % 4 == 0 : weight.bits != 8 || weight.row_bytes % 8 == 0;
  bool whole_chunks =
      weight.cols % kChunk == 0 && (weight.group % kChunk == 0 || weight.group >= weight.cols);
  return m >= 1 && m <= kMaxRows && !weight.channel && aligned && whole_chunks;
}

void multiply_integer(const DeviceIntegerWeight& weight, const DeviceRows& rows, void* stream) {
  auto* on = static_cast<cudaStream_t>(stream);
  if (rows.type == DeviceFloat::kF32) return run_multiply<float>(weight, rows, on);
  if (rows.type == DeviceFloat::kF16) return run_multiply<__half>(weight, rows, on);
  run_multiply<__nv_bfloat16>(weight, rows, on);
}

}  // namespace quaver::kernels
