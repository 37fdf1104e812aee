// The one linear layer: y = x W^T + b, whatever the weight is stored as.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/quant_weight.h"
#include "nn/activation_quant.h"
#include "nn/linear_shard.h"

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

  // Takes a plain weight [out, in] of any floating dtype and an optional bias [out]. The ATen body converts
  // it to the activations' dtype on each call when they differ; the kernel reads it as it is.
  static Linear plain(at::Tensor weight, std::optional<at::Tensor> bias);
  // Takes a quantized weight; `compute_dtype` is that of activations on the ATen path. What the weight asks
  // of its input is left to set_input_quant.
  static Linear quantized(std::shared_ptr<const QuantWeight> weight, std::optional<at::Tensor> bias,
                          at::ScalarType compute_dtype, at::Device device);

  at::Tensor forward(const at::Tensor& x) const;  // [tokens, in] -> [tokens, out]

  int64_t in_features() const;  // of the weight that is here
  int64_t out_features() const;
  const std::optional<at::Tensor>& bias() const;

  // The weight as the ATen path multiplies it: the plain one, or the dequantized one (made anew each call).
  at::Tensor dense_weight() const;  // [out, in]
  bool is_dense() const;            // dense_weight is there and costs nothing
  // From now on forward multiplies exactly this tensor, gradients included; for tuning.
  void set_dense_weight(at::Tensor weight);
  // From now on forward quantizes its input so, and no kernel rounds it further; before first use. The weight
  // must not hold the input's multiplier too.
  void set_input_quant(InputQuant quant);
  const InputQuant& input_quant() const;
  // Called with each input as it is multiplied, for calibration; null stops it. Inputs then take the ATen
  // body.
  void set_input_observer(std::function<void(const at::Tensor&)> observer);
  // The same with each output, before anything else sees it.
  void set_output_observer(std::function<void(const at::Tensor&)> observer);
  // Null when the weight is plain.
  std::shared_ptr<const QuantWeight> quant_weight() const;

  // Before first use: the kernel must not round activations (it may round them to 8 bits otherwise).
  void set_exact_activations(bool exact);

  // Before first use: this is one rank's part of a layer; forward takes this rank's columns of x, or gives
  // its rows or all of them, as the shard says.
  void set_shard(LinearShard shard);
  const LinearShard& shard() const;
  Extent2d whole_shape() const;  // [out, in] of the layer that this is a part of

  // An adapter's update of low rank, whatever the weight is stored as: y += scale * (x down^T) up^T.
  struct LowRank {
    int64_t adapter = 0;  // its place among the scales of nn/low_rank.h
    at::Tensor down;      // [rank, in]
    at::Tensor up;        // [out, rank]
  };
  // From now on forward adds those whose adapter the thread's LowRankScope runs; none outside of a scope. x
  // is taken as it came, not quantized. Tensors in the activations' dtype on the weight's device. Replaces
  // what was given before; not while forward runs. Of a part, what is given is for the whole layer.
  // Error(kInternal) where shapes don't fit.
  void set_low_rank(std::vector<LowRank> updates);

  // The tensors that hold the weight, for whoever moves them (nn/offload.h); what is small, and updates of
  // low rank, stay where they are. Not while forward runs.
  void visit_tensors(const std::function<void(at::Tensor&)>& visit);

  // Gives the stored form up and keeps the kernel's layout (or, of quantized weights, the codes on the
  // device) alone: quant_weight is null from then on and, on the CPU, dense_weight and so the ATen body are
  // Error(kInternal). Does nothing when no kernel takes the weight.
  void keep_kernel_layout_only();

  // Lays the weight out for its kernel now instead of on the first call that takes the kernel path.
  void prepare() const;
  std::string kernel_name() const;  // what will run it, "aten" when no kernel does
  size_t size_bytes() const;        // the weight and bias as stored, without the kernel's own copy

 private:
  friend class LinearGroup;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Layers over one input (q, k, v; gate, up) run as one: where they quantize x alike, it is done once, and
// where they share a kernel too, a step prepares x once and issues one parallel loop. Results equal those of
// the single layers. Borrows the layers, which must not move.
class LinearGroup {
 public:
  explicit LinearGroup(std::vector<const Linear*> layers) : layers_(std::move(layers)) {}

  // One result per layer, in order.
  std::vector<at::Tensor> forward(const at::Tensor& x) const;  // [tokens, in] -> each [tokens, out]
  void prepare() const;                                        // as Linear::prepare

 private:
  bool share_input() const;
  bool share_kernel(const at::Tensor& x) const;
  std::vector<at::Tensor> multiply(const at::Tensor& input) const;
  std::vector<const Linear*> layers_;
};

}  // namespace quaver::nn
