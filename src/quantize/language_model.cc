#include "quantize/language_model.h"

#include <ATen/core/grad_mode.h>

#include "quantize/calibration_tokens.h"
#include "quantize/model_layers.h"

namespace quaver::quantize {

namespace {

class LanguageModel : public BlockModel {
 public:
  explicit LanguageModel(const BlockModelOptions& options)
      : options_(options),
        source_(models::open_model(options.path)),
        shell_source_(*source_, options.load),
        shell_(models::make_causal_lm_shell(shell_source_)) {}

  const Checkpoint& source() const override { return *source_; }
  bool is_quantized() const override { return shell_source_.format() != nullptr; }
  int64_t num_blocks() const override { return shell_->info().num_layers; }
  std::string block_prefix(int64_t block) const override {
    return cat(shell_->info().blocks_prefix, ".", block, ".");
  }
  std::vector<std::string> block_lists() const override { return {shell_->info().blocks_prefix}; }
  std::vector<LayerShape> layers() const override { return quantizable_layers(*shell_, *source_); }
  std::unique_ptr<models::DecoderBlock> make_block(int64_t block, nn::WeightSource& source) const override {
    return shell_->make_block(block, source);
  }

  std::string calibrate(ProgressSink&) override {
    text_ = load_text(options_.path, options_.text);
    return cat(text_.source, ": ", text_.num_rows, " of ", text_.wanted_rows, " rows of ", text_.seqlen,
               " tokens");
  }

  Activations first_inputs() override {
    at::NoGradGuard no_grad;
    const at::Tensor rows =
        shell_->embed(token_tensor(text_, options_.load.device)).to(options_.load.compute_dtype);
    const std::vector<int64_t> shape = {text_.num_rows, text_.seqlen, -1};
    text_ = {};
    return {rows.view(shape)};
  }

  json calibration_settings() const override {
    return {{"dataset", options_.text.dataset},
            {"nsamples", options_.text.nsamples},
            {"seqlen", options_.text.seqlen}};
  }

  const models::CausalLm* language_model() const override { return shell_.get(); }

 private:
  const BlockModelOptions options_;
  std::unique_ptr<Checkpoint> source_;
  nn::WeightSource shell_source_;
  std::unique_ptr<models::CausalLm> shell_;
  CalibrationSet text_;
};

}  // namespace

std::unique_ptr<BlockModel> open_language_model(const BlockModelOptions& options) {
  return std::make_unique<LanguageModel>(options);
}

}  // namespace quaver::quantize
