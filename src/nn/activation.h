// The gated activations of feed-forward layers.
#pragma once

#include <ATen/core/Tensor.h>

namespace quaver::nn {

enum class Activation { kSilu, kGelu, kGeluTanh, kClampedSilu };

// act(gate) * up; kClampedSilu: (u + 1) * g * sigmoid(alpha * g) with g = min(gate, limit) and u = up cut to
// [-limit, limit].
struct Gating {
  Gating(Activation activation, float slope = 1, float bound = 0)
      : function(activation), alpha(slope), limit(bound) {}
  Activation function;
  float alpha, limit;
};

at::Tensor gated(const Gating& gating,
                 const at::Tensor& gate,  // [..., n]
                 const at::Tensor& up);   // [..., n] -> [..., n]

}  // namespace quaver::nn
