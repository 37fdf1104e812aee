#include "nn/timestep_embedding.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sin.h>

#include <cmath>

namespace quaver::nn {

at::Tensor sinusoidal_embedding(const at::Tensor& t, int64_t dim) {
  const int64_t half = dim / 2;
  at::Tensor frequencies =
      at::exp(at::arange(half, t.options()) * (-std::log(10000.0) / static_cast<double>(half)));
  at::Tensor angles = t.unsqueeze(1) * frequencies;
  return at::cat({at::cos(angles), at::sin(angles)}, 1);
}

EmbeddingMlp::EmbeddingMlp(WeightSource& source, const std::string& prefix, int64_t in, int64_t width)
    : first_(source.linear(cat(prefix, ".linear_1"), width, in, Bias::kRequired)),
      second_(source.linear(cat(prefix, ".linear_2"), width, width, Bias::kRequired)) {}

at::Tensor EmbeddingMlp::forward(const at::Tensor& x) const {
  return second_.forward(at::silu(first_.forward(x)));
}

}  // namespace quaver::nn
