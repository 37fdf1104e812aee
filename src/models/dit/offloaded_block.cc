#include "models/dit/offloaded_block.h"

#include <utility>

#include "models/offload_linears.h"

namespace quaver::models {

namespace {

class OffloadedDitBlock : public DitBlock {
 public:
  OffloadedDitBlock(std::unique_ptr<DitBlock> block, nn::LayerOffload& layers)
      : block_(std::move(block)), layers_(layers), number_(offload_linears(*block_, layers)) {}

  DitState forward(const DitState& state, const DitContext& context) const override {
    const nn::LayerOffload::Use use = layers_.use(number_);
    return block_->forward(state, context);
  }
  at::Tensor modulated_input(const DitState& state, const DitContext& context) const override {
    const nn::LayerOffload::Use use = layers_.use(number_);
    return block_->modulated_input(state, context);
  }
  std::vector<NamedLinear> linears() override { return block_->linears(); }
  void prepare() const override { block_->prepare(); }

 private:
  std::unique_ptr<DitBlock> block_;
  nn::LayerOffload& layers_;
  int64_t number_;
};

}  // namespace

std::unique_ptr<DitBlock> offloaded(std::unique_ptr<DitBlock> block, nn::LayerOffload& layers) {
  return std::make_unique<OffloadedDitBlock>(std::move(block), layers);
}

}  // namespace quaver::models
