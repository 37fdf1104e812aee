// The gated feed-forward layer: down(act(gate(x)) * up(x)).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "nn/activation.h"
#include "nn/linear.h"

namespace quaver::nn {

// Movable; the layers keep their addresses when it moves.
class Mlp {
 public:
  Mlp(Gating gating, Linear gate, Linear up, Linear down);
  at::Tensor forward(const at::Tensor& x) const;  // [tokens, hidden] -> the same

  Linear& gate() { return layers_->gate; }
  Linear& up() { return layers_->up; }
  Linear& down() { return layers_->down; }
  const Linear& gate() const { return layers_->gate; }
  const Linear& up() const { return layers_->up; }
  const Linear& down() const { return layers_->down; }
  const Gating& gating() const { return gating_; }
  void prepare() const;

 private:
  struct Layers {
    Linear gate, up, down;
  };
  Gating gating_;
  std::unique_ptr<Layers> layers_;
  LinearGroup gate_up_;
};

}  // namespace quaver::nn
