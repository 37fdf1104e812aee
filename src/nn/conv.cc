#include "nn/conv.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/upsample_nearest2d.h>

#include "nn/kernel_path.h"

namespace quaver::nn {

namespace {

// Sums along a kernel's axis of three: what the two small pixels under a window weigh when its middle is the
// first (0) or the second (1) copy of a pixel.
at::Tensor summed_axis(const at::Tensor& kernel, int64_t axis, size_t copy) {
  at::Tensor before = kernel.select(axis, 0), middle = kernel.select(axis, 1), after = kernel.select(axis, 2);
  return copy == 0 ? at::stack({before, middle + after}, axis) : at::stack({before + middle, after}, axis);
}

}  // namespace

Conv2d::Conv2d(WeightSource& source, std::string_view prefix, const ConvShape& shape)
    : padding_(shape.padding),
      stride_(shape.stride),
      weight_(source.tensor(cat(prefix, ".weight"), {shape.out, shape.in, shape.kernel, shape.kernel})
                  .contiguous(at::MemoryFormat::ChannelsLast)),
      bias_(source.tensor(cat(prefix, ".bias"), {shape.out})) {}

at::Tensor Conv2d::forward(const at::Tensor& x) const {
  return at::conv2d(x, weight_, bias_, {stride_, stride_}, {padding_, padding_});
}

DownConv2d::DownConv2d(WeightSource& source, std::string_view prefix, int64_t channels)
    : conv_(source, prefix, {.in = channels, .out = channels, .padding = 0, .stride = 2}) {}

at::Tensor DownConv2d::forward(const at::Tensor& x) const {
  return conv_.forward(at::constant_pad_nd(x, {0, 1, 0, 1}));
}

UpConv2d::UpConv2d(WeightSource& source, std::string_view prefix, int64_t channels)
    : conv_(source, prefix, {.in = channels, .out = channels}) {
  if (!conv_.weight().is_cpu() || conv_.weight().scalar_type() != at::kFloat) return;
  for (size_t i = 0; i < summed_.size(); ++i)
    summed_[i] = summed_axis(summed_axis(conv_.weight(), 2, i / 2), 3, i % 2)
                     .contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor UpConv2d::repeat_then_convolve(const at::Tensor& x) const {
  return conv_.forward(at::upsample_nearest2d(x, {2 * x.size(2), 2 * x.size(3)}));
}

at::Tensor UpConv2d::convolve_each(const at::Tensor& x) const {
  const int64_t rows = x.size(2), cols = x.size(3);
  at::Tensor y = at::empty({x.size(0), x.size(1), 2 * rows, 2 * cols},
                           x.options().memory_format(at::MemoryFormat::ChannelsLast));
  for (size_t i = 0; i < summed_.size(); ++i) {
    const auto row = static_cast<int64_t>(i / 2), col = static_cast<int64_t>(i % 2);
    // [batch, channels, rows + 1, cols + 1]: the first copy's windows begin one pixel before the second's.
    at::Tensor windows = at::conv2d(x, summed_[i], conv_.bias(), {1, 1}, {1, 1});
    y.slice(2, row, {}, 2).slice(3, col, {}, 2).copy_(windows.narrow(2, row, rows).narrow(3, col, cols));
  }
  return y;
}

at::Tensor UpConv2d::forward(const at::Tensor& x) const {
  return kernels_apply(x, {&conv_.weight()}) ? convolve_each(x) : repeat_then_convolve(x);
}

}  // namespace quaver::nn
