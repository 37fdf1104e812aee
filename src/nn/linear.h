// The one linear layer: y = x W^T + b, whatever the weight is stored as.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>

#include "formats/quant_weight.h"

namespace quaver::nn {

// Two bodies: an ATen expression over the dense weight (differentiable; the reference), and a kernel from the
// table, taken on the CPU when no gradient is asked for. Movable, not copyable. forward is const and thread
// safe as long as no set_* runs.
class Linear {
 public:
  Linear();
  ~Linear();
  Linear(Linear&&) noexcept;
  Linear& operator=(Linear&&) noexcept;

  // Takes a plain weight [out, in] and an optional bias [out].
  static Linear plain(at::Tensor weight, std::optional<at::Tensor> bias);
  // Takes a quantized weight; `compute_dtype` is that of activations on the ATen path.
  static Linear quantized(std::shared_ptr<const QuantWeight> weight, std::optional<at::Tensor> bias,
                          at::ScalarType compute_dtype, at::Device device);

  at::Tensor forward(const at::Tensor& x) const;  // [tokens, in] -> [tokens, out]

  int64_t in_features() const;
  int64_t out_features() const;
  const std::optional<at::Tensor>& bias() const;

  // The weight as the ATen path multiplies it: the plain one, or the dequantized one (made anew each call).
  at::Tensor dense_weight() const;  // [out, in]
  // From now on forward multiplies exactly this tensor, gradients included; for tuning.
  void set_dense_weight(at::Tensor weight);
  // Null when the weight is plain.
  std::shared_ptr<const QuantWeight> quant_weight() const;

  std::string kernel_name() const;  // what will run it, "aten" when no kernel does
  size_t size_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quaver::nn
