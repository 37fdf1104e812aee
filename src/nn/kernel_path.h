// Decides which of an operation's bodies runs: the ATen expression or a kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>

namespace quaver::nn {

// True when kernels may take these operands: activations (`x`) are float32 on the CPU, and neither they nor
// any of `weights` ask for a gradient. Undefined tensors among `weights` don't count.
bool kernels_apply(const at::Tensor& x, std::initializer_list<const at::Tensor*> weights = {});

// True when the bf16 kernels may take these operands; they have gradients for the activations, so tuning goes
// through them. bfloat16 on the CPU, and none of `weights` asks for a gradient.
bool bf16_kernels_apply(const at::Tensor& x, std::initializer_list<const at::Tensor*> weights = {});

// False while an AtenOnly lives on this thread.
bool kernels_allowed();

// While one lives, this thread runs the ATen bodies only; for comparisons.
class AtenOnly {
 public:
  AtenOnly();
  ~AtenOnly();
  AtenOnly(const AtenOnly&) = delete;
  AtenOnly& operator=(const AtenOnly&) = delete;
};

}  // namespace quaver::nn
