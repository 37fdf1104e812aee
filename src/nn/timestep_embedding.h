// Tells a diffusion model how noisy its input is: sinusoids of a number, and the two layers over them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "nn/linear.h"
#include "nn/weight_source.h"

namespace quaver::nn {

// concat(cos(t f), sin(t f)) with f_i = 10000^(-i / (dim / 2)); "Attention is all you need", section 3.5, in
// the order that diffusion models use. Precondition: dim is even.
at::Tensor sinusoidal_embedding(const at::Tensor& t,  // float32 [batch]
                                int64_t dim);         // -> float32 [batch, dim]

// linear_2(silu(linear_1(x))).
class EmbeddingMlp {
 public:
  EmbeddingMlp() = default;
  // `prefix`.linear_1 [width, in] and `prefix`.linear_2 [width, width].
  EmbeddingMlp(WeightSource& source, const std::string& prefix, int64_t in, int64_t width);
  at::Tensor forward(const at::Tensor& x) const;  // [batch, in] -> [batch, width]
  // By name behind the prefix.
  std::vector<std::pair<std::string, Linear*>> linears() {
    return {{"linear_1", &first_}, {"linear_2", &second_}};
  }

 private:
  Linear first_, second_;
};

}  // namespace quaver::nn
