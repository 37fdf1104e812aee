// Integer weights on CUDA: one thread per code to expand, one warp per weight row to multiply.
#include <type_traits>

#include "kernels/device_values.cuh"
#include "kernels/linear/device_integer.h"

namespace quaver::kernels {
namespace {

constexpr int kWarpsPerBlock = 4, kChunk = 8;  // a lane takes eight codes, `bits` whole bytes, at once
constexpr int64_t kMaxRows = 8;

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
using EightOf = Values<T, kChunk>;

// The same as `expand`, a chunk per thread: eight codes share a scale.
template <class T, int kBits>
__global__ void expand_chunks(DeviceIntegerWeight w, T* out) {
  const int64_t row = blockIdx.x;
  const int chunk = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x), col = chunk * kChunk;
  if (col >= w.cols) return;
  const uint64_t word = load_codes<kBits>(w.codes + row * w.row_bytes + chunk * kBits);
  const int64_t group = row * w.groups + col / static_cast<int>(w.group);
  const float scale = scale_at(w, group), zero = zero_at(w, group);
  EightOf<T> values;
#pragma unroll
  for (int i = 0; i < kChunk; ++i)
    values.at[i] =
        from_float<T>(scale * (static_cast<float>((word >> (kBits * i)) & ((1u << kBits) - 1u)) - zero));
  *reinterpret_cast<EightOf<T>*>(out + row * w.cols + col) = values;
}

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
      for (int i = 0; i < kChunk; ++i) sums[r] = fmaf(weight[i], to_float(in.at[i]), sums[r]);
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

// Whether eight neighbouring codes are whole aligned bytes of one group.
bool has_chunks(const DeviceIntegerWeight& w) {
  const bool aligned = w.bits == 4 ? w.row_bytes % 4 == 0 : w.bits != 8 || w.row_bytes % 8 == 0;
  return !w.channel && aligned && w.cols % kChunk == 0 && (w.group % kChunk == 0 || w.group >= w.cols);
}

// body(std::integral_constant of the bits).
template <class Body>
void with_bits(int bits, const Body& body) {
  switch (bits) {
    case 2:
      return body(std::integral_constant<int, 2>());
    case 3:
      return body(std::integral_constant<int, 3>());
    case 4:
      return body(std::integral_constant<int, 4>());
    case 5:
      return body(std::integral_constant<int, 5>());
    case 6:
      return body(std::integral_constant<int, 6>());
    case 7:
      return body(std::integral_constant<int, 7>());
    default:
      return body(std::integral_constant<int, 8>());
  }
}

template <class T>
void run_expand(const DeviceIntegerWeight& w, T* out, cudaStream_t stream) {
  constexpr int kThreads = 256, kChunkThreads = 128;
  if (has_chunks(w)) {
    const auto per_row = static_cast<unsigned>((w.cols / kChunk + kChunkThreads - 1) / kChunkThreads);
    with_bits(w.bits, [&](auto bits) {
      expand_chunks<T, bits.value>
          <<<dim3(static_cast<unsigned>(w.rows), per_row), kChunkThreads, 0, stream>>>(w, out);
    });
  } else {
    const auto blocks = static_cast<unsigned>((w.rows * w.cols + kThreads - 1) / kThreads);
    expand<T><<<blocks, kThreads, 0, stream>>>(w, out);
  }
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

}  // namespace

void expand_integer(const DeviceIntegerWeight& weight, DeviceFloat type, void* out, void* stream) {
  with_device_float(type, [&](auto zero) {
    run_expand(weight, static_cast<decltype(zero)*>(out), static_cast<cudaStream_t>(stream));
  });
}

bool multiplies_directly(const DeviceIntegerWeight& weight, int64_t m) {
  return m >= 1 && m <= kMaxRows && has_chunks(weight);
}

void multiply_integer(const DeviceIntegerWeight& weight, const DeviceRows& rows, void* stream) {
  with_device_float(rows.type, [&](auto zero) {
    with_bits(weight.bits, [&](auto bits) {
      run_multiply_bits<decltype(zero), bits.value>(weight, rows, static_cast<cudaStream_t>(stream));
    });
  });
}

}  // namespace quaver::kernels
