#include "nn/mlp.h"

#include <utility>

namespace quaver::nn {

Mlp::Mlp(Gating gating, Linear gate, Linear up, Linear down)
    : gating_(gating),
      layers_(new Layers{std::move(gate), std::move(up), std::move(down)}),
      gate_up_({&layers_->gate, &layers_->up}) {}

at::Tensor Mlp::forward(const at::Tensor& x) const {
  std::vector<at::Tensor> halves = gate_up_.forward(x);
  return layers_->down.forward(gated(gating_, halves[0], halves[1]));
}

void Mlp::prepare() const {
  gate_up_.prepare();
  layers_->down.prepare();
}

}  // namespace quaver::nn
