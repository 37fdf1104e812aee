#include "quantize/text_rows.h"

#include <ATen/core/Tensor.h>

#include <utility>

namespace quaver::quantize {

namespace {

class TextRowBlock : public models::DecoderBlock {
 public:
  TextRowBlock(std::unique_ptr<models::TextBlock> block, models::TextContext context, int64_t tokens)
      : block_(std::move(block)), context_(std::move(context)), tokens_(tokens) {}

  at::Tensor forward(const at::Tensor& hidden, const models::StepContext&) const override {
    return block_->forward(hidden.unflatten(0, {-1, tokens_}), context_).flatten(0, 1);
  }

  std::vector<NamedLinear> linears() override { return block_->linears(); }
  void prepare() const override { block_->prepare(); }

 private:
  std::unique_ptr<models::TextBlock> block_;
  models::TextContext context_;
  int64_t tokens_;
};

}  // namespace

std::unique_ptr<models::DecoderBlock> as_row_block(std::unique_ptr<models::TextBlock> block,
                                                   const models::TextContext& context, int64_t tokens) {
  return std::make_unique<TextRowBlock>(std::move(block), context, tokens);
}

}  // namespace quaver::quantize
