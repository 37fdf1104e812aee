// What a Linear holds; shared by the single layer and the group.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "nn/device_quant_weight.h"
#include "nn/kernel_weight.h"
#include "nn/linear.h"

namespace quaver::nn {

struct Linear::Impl {
  at::Tensor
      plain;  // as stored, or what set_dense_weight gave; undefined while the quantized weight is in force
  std::shared_ptr<const QuantWeight> quant;  // null once only the kernel's layout is kept
  Extent2d shape;                            // [out, in]
  std::unique_ptr<DeviceQuantWeight>
      on_device;  // the quantized weight when it lives on another device than the CPU
  std::optional<at::Tensor> bias;
  at::Tensor kernel_bias;  // float32; undefined when there is none
  at::ScalarType compute_dtype = at::kFloat;
  bool overridden = false;  // by set_dense_weight
  std::function<void(const at::Tensor&)> observer, output_observer;
  bool exact_activations = false;  // asked of the kernel
  InputQuant input;
  std::vector<LowRank> low_rank;  // of this rank's part
  LinearShard shard;

  mutable std::once_flag kernel_once;
  mutable std::unique_ptr<KernelWeight> kernel;

  bool on_cpu() const { return plain.defined() ? plain.is_cpu() : !on_device; }
  // Kernels run neither for a weight set by hand nor while an observer listens.
  bool wants_aten() const { return overridden || observer || output_observer; }
  // forward of an input that is quantized already, where it is to be.
  at::Tensor multiply(const at::Tensor& x) const;
  at::Tensor dense() const;  // Linear::dense_weight
  // Null when no kernel takes this weight or none is to run.
  const KernelWeight* kernel_weight() const;
  // The kernel that kernel_weight lays it out for, without doing so.
  const kernels::LinearKernel* chosen_kernel() const;
};

}  // namespace quaver::nn
