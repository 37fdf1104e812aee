// Two-dimensional convolutions of pictures. Pictures are [batch, channels, height, width] and lie channels
// last in memory, which is what every step here gives and runs fastest on.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <functional>
#include <string_view>

#include "nn/weight_source.h"

namespace quaver::nn {

struct ConvShape {
  int64_t in, out;
  int64_t kernel = 3;   // square
  int64_t padding = 1;  // zeros on every side
  int64_t stride = 1;
};

class Conv2d {
 public:
  // `prefix`.weight [out, in, kernel, kernel] and `prefix`.bias [out]; Error(kBadFile) as of
  // WeightSource::tensor.
  Conv2d(WeightSource& source, std::string_view prefix, const ConvShape& shape);

  at::Tensor forward(const at::Tensor& x) const;  // [batch, in, h, w] -> [batch, out, .., ..]
  const at::Tensor& weight() const { return weight_; }
  const at::Tensor& bias() const { return bias_; }
  // As Linear::visit_tensors.
  void visit_tensors(const std::function<void(at::Tensor&)>& visit) { visit(weight_); }

 private:
  int64_t padding_, stride_;
  at::Tensor weight_, bias_;
};

// Halves height and width: a convolution of stride 2 over the picture with a row of zeros below and a column
// to its right.
class DownConv2d {
 public:
  DownConv2d(WeightSource& source, std::string_view prefix, int64_t channels);
  at::Tensor forward(const at::Tensor& x) const;  // [batch, channels, h, w] -> [batch, channels, h/2, w/2]
  void visit_tensors(const std::function<void(at::Tensor&)>& visit) { conv_.visit_tensors(visit); }

 private:
  Conv2d conv_;
};

// Doubles height and width by repeating pixels, then convolves 3x3. Two bodies: these two steps, and, for
// float32 on the CPU, one 2x2 convolution of the small picture for each of the four pixels that come of one:
// a window of the large picture holds each pixel of the small one up to four times, and their weights are
// added beforehand. 16 products instead of 36.
class UpConv2d {
 public:
  UpConv2d(WeightSource& source, std::string_view prefix, int64_t channels);
  at::Tensor forward(const at::Tensor& x) const;  // [batch, channels, h, w] -> [batch, channels, 2h, 2w]
  void visit_tensors(const std::function<void(at::Tensor&)>& visit) { conv_.visit_tensors(visit); }

 private:
  at::Tensor repeat_then_convolve(const at::Tensor& x) const;
  at::Tensor convolve_each(const at::Tensor& x) const;
  Conv2d conv_;
  // Of the pixels at even row and even column, even and odd, odd and even, odd and odd; empty where the first
  // body runs.
  std::array<at::Tensor, 4> summed_;  // each [channels, channels, 2, 2]
};

}  // namespace quaver::nn
