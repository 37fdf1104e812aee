// The gated activations of feed-forward layers: act(gate) * up.
#pragma once

#include <ATen/core/Tensor.h>

namespace quaver::nn {

enum class Activation { kSilu, kGelu, kGeluTanh };

at::Tensor gated(Activation activation,
                 const at::Tensor& gate,  // [..., n]
                 const at::Tensor& up);   // [..., n] -> [..., n]

}  // namespace quaver::nn
