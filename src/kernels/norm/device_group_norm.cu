// Three launches: each block measures a run of pixels, a block per group joins the runs, each block
// normalizes a run. A thread keeps to eight channels and walks down the pixels.
#include <algorithm>

#include "kernels/device_values.cuh"
#include "kernels/norm/device_group_norm.h"

namespace quaver::kernels {
namespace {

constexpr int kEight = 8, kThreads = 256, kMaxBlocks = 1024;

template <class T>
using Eight = Values<T, kEight>;

// A run of pixels and, in `factors`, what a group's values are multiplied by and what is added.
struct Plan {
  DeviceGroupNorm args;
  int run, runs;   // pixels of a run; runs of a picture
  float* moments;  // [batch, runs, groups, 2]: mean, and the sum of squares about it
  float* factors;  // [batch, groups, 2]: mean, 1 / standard deviation
};

struct Place {
  __device__ Place(const Plan& plan)
      : eights(static_cast<int>(plan.args.channels / kEight)),
        eight(static_cast<int>(threadIdx.x) % eights),
        lane(static_cast<int>(threadIdx.x) / eights),
        lanes(kThreads / eights),
        first(static_cast<int64_t>(blockIdx.x) * plan.run),
        count(static_cast<int>(min(static_cast<int64_t>(plan.run), plan.args.pixels - first))),
        begin((blockIdx.y * plan.args.pixels + first) * plan.args.channels + eight * kEight) {}
  __device__ bool works() const { return lane < lanes; }
  int eights, eight, lane, lanes;
  int64_t first;
  int count;
  int64_t begin;  // of the first pixel's channels, in values
};

template <class T>
__device__ Eight<T> load(const void* from, int64_t begin) {
  return *reinterpret_cast<const Eight<T>*>(static_cast<const T*>(from) + begin);
}

// The mean and squares of one group over a run from those of its channels, about each channel's first value.
__device__ void join_channels(const Plan& plan, const Place& place, const float* sums, const float* squares,
                              const float* firsts, int group) {
  const int width = static_cast<int>(plan.args.channels / plan.args.groups), begin = group * width;
  const float count = static_cast<float>(place.count);
  const int stride = place.eights * kEight;
  auto channel_sum = [&](const float* of, int channel) {
    float sum = 0;
    for (int lane = 0; lane < place.lanes; ++lane) sum += of[lane * stride + channel];
    return sum;
  };
  float mean = 0;
  for (int c = begin; c < begin + width; ++c) mean += firsts[c] + channel_sum(sums, c) / count;
  mean /= static_cast<float>(width);
  float square = 0;
  for (int c = begin; c < begin + width; ++c) {
    const float off = channel_sum(sums, c) / count, apart = firsts[c] + off - mean;
    square += channel_sum(squares, c) - count * off * off + count * apart * apart;
  }
  float* out = plan.moments + ((blockIdx.y * plan.runs + blockIdx.x) * plan.args.groups + group) * 2;
  out[0] = mean, out[1] = square;
}

template <class T>
__global__ void measure(Plan plan) {
  __shared__ float sums[kThreads * kEight], squares[kThreads * kEight], firsts[kThreads * kEight];
  const Place place(plan);
  if (place.works()) {
    const Eight<T> start = load<T>(plan.args.x, place.begin);
    float sum[kEight] = {}, square[kEight] = {};
    for (int pixel = place.lane; pixel < place.count; pixel += place.lanes) {
      const Eight<T> x = load<T>(plan.args.x, place.begin + pixel * plan.args.channels);
#pragma unroll
      for (int i = 0; i < kEight; ++i) {
        const float apart = to_float(x.at[i]) - to_float(start.at[i]);
        sum[i] += apart;
        square[i] = fmaf(apart, apart, square[i]);
      }
    }
    const int at = (place.lane * place.eights + place.eight) * kEight;
    for (int i = 0; i < kEight; ++i) {
      sums[at + i] = sum[i], squares[at + i] = square[i];
      if (place.lane == 0) firsts[at + i] = to_float(start.at[i]);
    }
  }
  __syncthreads();
  for (int group = static_cast<int>(threadIdx.x); group < plan.args.groups; group += kThreads)
    join_channels(plan, place, sums, squares, firsts, group);
}

__device__ double block_sum(double x, double* of_threads) {
  of_threads[threadIdx.x] = x;
  for (int step = kThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < step) of_threads[threadIdx.x] += of_threads[threadIdx.x + step];
  }
  __syncthreads();
  const double sum = of_threads[0];
  __syncthreads();
  return sum;
}

__global__ void join_runs(Plan plan) {
  __shared__ double of_threads[kThreads];
  const int64_t group = blockIdx.x, width = plan.args.channels / plan.args.groups;
  auto over_runs = [&](auto value) {
    double sum = 0;
    for (int run = static_cast<int>(threadIdx.x); run < plan.runs; run += kThreads) {
      const float* of = plan.moments + ((blockIdx.y * plan.runs + run) * plan.args.groups + group) * 2;
      const int64_t pixels =
          min(static_cast<int64_t>(plan.run), plan.args.pixels - static_cast<int64_t>(run) * plan.run);
      sum +=
          value(static_cast<double>(pixels * width), static_cast<double>(of[0]), static_cast<double>(of[1]));
    }
    return block_sum(sum, of_threads);
  };
  const double count = static_cast<double>(plan.args.pixels * width);
  const double mean = over_runs([](double n, double m, double) { return n * m; }) / count;
  const double square =
      over_runs([&](double n, double m, double s) { return s + n * (m - mean) * (m - mean); });
  if (threadIdx.x > 0) return;
  float* out = plan.factors + (blockIdx.y * plan.args.groups + group) * 2;
  out[0] = static_cast<float>(mean);
  out[1] = static_cast<float>(1 / sqrt(square / count + static_cast<double>(plan.args.epsilon)));
}

template <class T>
__global__ void normalize(Plan plan) {
  const Place place(plan);
  if (!place.works()) return;
  const int channel = place.eight * kEight, width = static_cast<int>(plan.args.channels / plan.args.groups);
  const Eight<T> weight = load<T>(plan.args.weight, channel), bias = load<T>(plan.args.bias, channel);
  float mean[kEight], factor[kEight];
#pragma unroll
  for (int i = 0; i < kEight; ++i) {
    const float* of = plan.factors + (blockIdx.y * plan.args.groups + (channel + i) / width) * 2;
    mean[i] = of[0], factor[i] = of[1] * to_float(weight.at[i]);
  }
  for (int pixel = place.lane; pixel < place.count; pixel += place.lanes) {
    const int64_t at = place.begin + pixel * plan.args.channels;
    const Eight<T> x = load<T>(plan.args.x, at);
    Eight<T> y;
#pragma unroll
    for (int i = 0; i < kEight; ++i) {
      const float normed = fmaf(to_float(x.at[i]) - mean[i], factor[i], to_float(bias.at[i]));
      y.at[i] = from_float<T>(plan.args.silu ? normed / (1 + __expf(-normed)) : normed);
    }
    *reinterpret_cast<Eight<T>*>(static_cast<T*>(plan.args.y) + at) = y;
  }
}

Plan plan_of(const DeviceGroupNorm& args) {
  const int64_t shortest = kThreads / (args.channels / kEight),
                even = (args.pixels + kMaxBlocks - 1) / kMaxBlocks;
  const int64_t run = std::min(args.pixels, std::max(shortest * 4, even)),
                runs = (args.pixels + run - 1) / run;
  return {args, static_cast<int>(run), static_cast<int>(runs), args.workspace,
          args.workspace + args.batch * runs * args.groups * 2};
}

}  // namespace

bool device_group_norm_takes(int64_t channels) {
  return channels > 0 && channels % kEight == 0 && channels <= kEight * kThreads;
}

size_t group_norm_workspace_floats(const DeviceGroupNorm& args) {
  return static_cast<size_t>(args.batch * (plan_of(args).runs + 1) * args.groups * 2);
}

void group_norm_on_device(const DeviceGroupNorm& args, void* stream) {
  const Plan plan = plan_of(args);
  const dim3 runs(static_cast<unsigned>(plan.runs), static_cast<unsigned>(args.batch)),
      groups(static_cast<unsigned>(args.groups), static_cast<unsigned>(args.batch));
  auto* on = static_cast<cudaStream_t>(stream);
  with_device_float(args.type, [&](auto zero) {
    measure<decltype(zero)><<<runs, kThreads, 0, on>>>(plan);
    join_runs<<<groups, kThreads, 0, on>>>(plan);
    normalize<decltype(zero)><<<runs, kThreads, 0, on>>>(plan);
  });
  check_launch("a group norm");
}

}  // namespace quaver::kernels
