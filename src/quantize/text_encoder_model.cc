#include "quantize/text_encoder_model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "checkpoint/diffusers_folder.h"
#include "diffusion/family.h"
#include "quantize/caption_list.h"
#include "quantize/model_layers.h"
#include "quantize/text_rows.h"

namespace quaver::quantize {

namespace {

// As many as are read where nothing else is asked for.
int64_t default_text_tokens(const DiffusersFolder& folder, const diffusion::ImageFamily& family) {
  const std::unique_ptr<Checkpoint> files = models::open_dit(folder);
  nn::WeightSource shapes(*files, {.device = at::kMeta, .plain_values = true});
  return family.defaults(models::make_dit_shell(shapes)->info()).text_tokens;
}

class TextEncoderModel : public BlockModel {
 public:
  TextEncoderModel(const BlockModelOptions& options, const diffusion::PromptReader& reader,
                   int64_t default_tokens)
      : options_(options),
        reader_(reader),
        folder_(DiffusersFolder::open(options.path)),
        source_(folder_.component(reader.component)),
        shell_source_(*source_, options.load),
        shell_(models::make_text_encoder_shell(shell_source_)) {
    const int64_t asked = options.trajectory.text_tokens;
    tokens_ = reader.tokens(asked > 0 ? asked : default_tokens, shell_->info());
  }

  const Checkpoint& source() const override { return *source_; }
  bool is_quantized() const override { return shell_source_.format() != nullptr; }
  int64_t num_blocks() const override { return shell_->info().num_blocks; }
  std::string block_prefix(int64_t block) const override {
    return cat(shell_->info().blocks_prefix, ".", block, ".");
  }
  // Under both of the names that readers know modules by: some leave this level of the files' names out.
  std::vector<std::string> block_lists() const override {
    constexpr std::string_view kLevel = "text_model.";
    std::vector<std::string> lists = {shell_->info().blocks_prefix};
    if (lists[0].starts_with(kLevel)) lists.push_back(lists[0].substr(kLevel.size()));
    return lists;
  }
  std::vector<LayerShape> layers() const override { return quantizable_layers(*shell_, *source_); }
  std::unique_ptr<models::DecoderBlock> make_block(int64_t block, nn::WeightSource& source) const override {
    return as_row_block(shell_->make_block(block, source), context_, tokens_);
  }

  std::string calibrate(ProgressSink&) override {
    const TrajectoryOptions& t = options_.trajectory;
    const std::vector<std::string> captions = load_captions(t.dataset, t.samples, t.seed);
    read(captions);
    return cat(reader_.component, ": ", t.dataset.empty() ? "the built-in captions" : t.dataset, ", ",
               captions.size(), " of ", tokens_, " tokens");
  }

  Activations first_inputs() override {
    at::NoGradGuard no_grad;
    const at::Tensor ids = std::exchange(ids_, at::Tensor());
    return {shell_->embed(ids).to(options_.load.compute_dtype)};
  }

  json calibration_settings() const override {
    const TrajectoryOptions& t = options_.trajectory;
    return {{"dataset", t.dataset}, {"calib_samples", t.samples}, {"max_sequence_length", t.text_tokens}};
  }

  std::filesystem::path pipeline() const override { return folder_.path(); }
  std::string component() const override { return reader_.component; }
  std::string scope() const override { return cat(reader_.component, "."); }

 private:
  // Where padding takes no part the rows end with the longest caption.
  void read(const std::vector<std::string>& captions) {
    const diffusion::PromptTokens tokenizer(folder_, reader_);
    std::vector<at::Tensor> rows;
    int64_t longest = 1;
    for (const std::string& caption : captions) {
      const models::EncodedPrompt prompt = tokenizer.encode(caption, tokens_);
      rows.push_back(prompt.ids);
      longest = std::max(longest, prompt.length);
    }
    if (!reader_.sees_padding) tokens_ = longest;
    ids_ = at::cat(rows).narrow(1, 0, tokens_).contiguous();
    context_ = shell_->context(tokens_);
  }

  const BlockModelOptions options_;
  const diffusion::PromptReader reader_;
  const DiffusersFolder folder_;
  std::unique_ptr<Checkpoint> source_;
  nn::WeightSource shell_source_;
  std::unique_ptr<models::TextEncoder> shell_;
  int64_t tokens_ = 0;  // of a row
  at::Tensor ids_;      // int64 [captions, tokens]
  models::TextContext context_;
};

}  // namespace

std::vector<std::unique_ptr<BlockModel>> open_text_encoders(const BlockModelOptions& options) {
  const DiffusersFolder folder = DiffusersFolder::open(options.path);
  const diffusion::ImageFamily& family = diffusion::image_family_of(folder);
  const int64_t tokens = default_text_tokens(folder, family);
  std::vector<std::unique_ptr<BlockModel>> encoders;
  for (const diffusion::PromptReader& reader : family.readers)
    encoders.push_back(std::make_unique<TextEncoderModel>(options, reader, tokens));
  return encoders;
}

}  // namespace quaver::quantize
