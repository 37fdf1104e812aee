#include "quantize/dit_rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include <utility>

namespace quaver::quantize {

namespace {

class RowBlock : public models::DecoderBlock {
 public:
  RowBlock(std::unique_ptr<models::DitBlock> block, const nn::RopeAngles& rope, int64_t text_tokens)
      : block_(std::move(block)), rope_(rope), text_tokens_(text_tokens) {}

  at::Tensor forward(const at::Tensor& hidden, const models::StepContext&) const override {
    const int64_t tokens = rope_.cos.size(0);
    const at::Tensor rows = hidden.view({-1, tokens + 1, hidden.size(-1)});
    const models::DitContext context{.condition = rows.select(1, tokens), .rope = rope_};
    const models::DitState state =
        block_->forward({.image = rows.narrow(1, text_tokens_, tokens - text_tokens_),
                         .text = rows.narrow(1, 0, text_tokens_)},
                        context);
    return dit_rows(state, context).flatten(0, 1);
  }

  std::vector<NamedLinear> linears() override { return block_->linears(); }
  void prepare() const override { block_->prepare(); }

 private:
  std::unique_ptr<models::DitBlock> block_;
  nn::RopeAngles rope_;
  int64_t text_tokens_;
};

}  // namespace

at::Tensor dit_rows(const models::DitState& state, const models::DitContext& context) {
  return at::cat({state.text, state.image, context.condition.unsqueeze(1)}, 1);
}

std::unique_ptr<models::DecoderBlock> as_row_block(std::unique_ptr<models::DitBlock> block,
                                                   const nn::RopeAngles& rope, int64_t text_tokens) {
  return std::make_unique<RowBlock>(std::move(block), rope, text_tokens);
}

}  // namespace quaver::quantize
