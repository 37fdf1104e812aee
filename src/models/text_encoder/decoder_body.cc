// A language model's decoder as a text encoder: its rows after the final norm, no head.
#include <ATen/ops/arange.h>

#include <utility>

#include "models/llm/decoder_block.h"
#include "models/llm/qwen_config.h"
#include "models/text_encoder/families.h"
#include "nn/attention_context.h"
#include "nn/embedding.h"

namespace quaver::models {

namespace {

class BodyBlock : public TextBlock {
 public:
  explicit BodyBlock(std::unique_ptr<DecoderBlock> block) : block_(std::move(block)) {}

  at::Tensor forward(const at::Tensor& hidden, const TextContext&) const override {
    const int64_t batch = hidden.size(0), tokens = hidden.size(1);
    nn::DenseAttention attention(std::vector<int64_t>(static_cast<size_t>(batch), tokens));
    at::Tensor positions = at::arange(tokens, at::TensorOptions(at::kLong).device(hidden.device()));
    const StepContext step{.positions = positions.repeat({batch}), .attention = &attention};
    return block_->forward(hidden.flatten(0, 1), step).unflatten(0, {batch, tokens});
  }
  std::vector<NamedLinear> linears() override { return block_->linears(); }
  void prepare() const override { block_->prepare(); }

 private:
  std::unique_ptr<DecoderBlock> block_;
};

class DecoderBody : public TextEncoder {
 public:
  // `prefix` is that of all names, with its dot.
  DecoderBody(DecoderConfig config, const std::string& prefix, nn::WeightSource& source)
      : config_(std::move(config)), device_(source.options().device) {
    CausalLmInfo& model = config_.info;
    model.blocks_prefix = cat(prefix, "layers");
    info_ = {.family = model.family,
             .width = model.hidden_size,
             .vocab_size = model.vocab_size,
             .num_blocks = model.num_layers,
             .max_tokens = model.max_position_embeddings,
             .blocks_prefix = model.blocks_prefix};
    dtype_ = source.options().compute_dtype;
    words_ = source.matrix(cat(prefix, "embed_tokens.weight"), model.vocab_size, model.hidden_size);
    norm_ = {source.tensor(cat(prefix, "norm.weight"), {model.hidden_size}), config_.norm_eps, config_.norm};
    rope_.full = std::make_shared<nn::RopeTable>(config_.rope, device_);
    rope_.window = std::make_shared<nn::RopeTable>(config_.window_rope, device_);
    source.ignore_if([](std::string_view name) { return name.starts_with("lm_head."); });
  }

  const TextEncoderInfo& info() const override { return info_; }
  TextContext context(int64_t) const override { return {}; }

  at::Tensor embed(const at::Tensor& ids) const override {
    at::Tensor words = nn::embedding(words_, ids.flatten().to(words_.device()), dtype_);
    return words.to(device_).unflatten(0, ids.sizes());
  }

  TextRows output(const at::Tensor& hidden, const at::Tensor&) const override {
    return {norm_.forward(hidden), {}};
  }

  std::unique_ptr<TextBlock> make_block(int64_t index, nn::WeightSource& source) const override {
    return std::make_unique<BodyBlock>(make_decoder_block(config_, rope_, index, source));
  }

 private:
  DecoderConfig config_;
  TextEncoderInfo info_;
  at::Device device_;
  at::ScalarType dtype_ = at::kFloat;
  BlockRope rope_;
  at::Tensor words_;  // [vocab, width], as stored
  nn::RmsNorm norm_;
};

}  // namespace

std::unique_ptr<TextEncoder> make_qwen3_body(nn::WeightSource& source) {
  const char* prefix = source.has("embed_tokens.weight") ? "" : "model.";
  return std::make_unique<DecoderBody>(read_qwen3(config_of(source.checkpoint())), prefix, source);
}

}  // namespace quaver::models
