// The bridge from stored weights to the kernel table: the one place where QuantWeight and kernels meet.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "formats/quant_weight.h"
#include "kernels/linear/kernel.h"

namespace quaver::nn {

// A weight in one kernel's own layout, ready to run. Immutable and thread safe.
class KernelWeight {
 public:
  // Null when no kernel multiplies such a weight. Nothing is borrowed.
  static std::unique_ptr<KernelWeight> of(const QuantWeight& weight, bool exact_activations);
  static std::unique_ptr<KernelWeight> of(const at::Tensor& plain);  // [out, in], f32, bf16 or f16 on the CPU
  // The kernel that `of` would lay the weight out for; null when there is none.
  static const kernels::LinearKernel* choose(const QuantWeight& weight, bool exact_activations);
  static const kernels::LinearKernel* choose(const at::Tensor& plain);

  const kernels::LinearKernel& kernel() const { return *kernel_; }
  int64_t in() const { return problem_.k; }
  size_t size_bytes() const { return prepacked_->size_bytes(); }

  struct Part {
    const KernelWeight* weight = nullptr;
    at::Tensor bias;  // float32 [out], or undefined
  };
  // Weights over one x. Precondition: all are of one kernel and one width; x is CPU float32 [tokens, in].
  static std::vector<at::Tensor> run(std::span<const Part> parts, const at::Tensor& x);  // each [tokens, out]

 private:
  KernelWeight() = default;
  static std::unique_ptr<KernelWeight> prepack(const kernels::WeightView& view);

  kernels::LinearProblem problem_;
  const kernels::LinearKernel* kernel_ = nullptr;
  std::unique_ptr<kernels::Prepacked> prepacked_;
};

}  // namespace quaver::nn
