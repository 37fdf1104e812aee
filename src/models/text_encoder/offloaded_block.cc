#include "models/text_encoder/offloaded_block.h"

#include <utility>

#include "models/offload_linears.h"

namespace quaver::models {

namespace {

class OffloadedTextBlock : public TextBlock {
 public:
  OffloadedTextBlock(std::unique_ptr<TextBlock> block, nn::LayerOffload& layers)
      : block_(std::move(block)), layers_(layers), number_(offload_linears(*block_, layers)) {}

  at::Tensor forward(const at::Tensor& hidden, const TextContext& context) const override {
    const nn::LayerOffload::Use use = layers_.use(number_);
    return block_->forward(hidden, context);
  }
  std::vector<NamedLinear> linears() override { return block_->linears(); }
  void prepare() const override { block_->prepare(); }

 private:
  std::unique_ptr<TextBlock> block_;
  nn::LayerOffload& layers_;
  int64_t number_;
};

}  // namespace

std::unique_ptr<TextBlock> offloaded(std::unique_ptr<TextBlock> block, nn::LayerOffload& layers) {
  return std::make_unique<OffloadedTextBlock>(std::move(block), layers);
}

}  // namespace quaver::models
