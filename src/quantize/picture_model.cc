#include "quantize/picture_model.h"

#include <utility>

#include "checkpoint/diffusers_folder.h"
#include "quantize/dit_rows.h"
#include "quantize/model_layers.h"

namespace quaver::quantize {

namespace {

constexpr const char* kComponent = "transformer";

class PictureModel : public BlockModel {
 public:
  explicit PictureModel(const BlockModelOptions& options)
      : options_(options),
        folder_(DiffusersFolder::open(options.path)),
        source_(models::open_dit(folder_)),
        shell_source_(*source_, options.load),
        shell_(models::make_dit_shell(shell_source_)) {}

  const Checkpoint& source() const override { return *source_; }
  bool is_quantized() const override { return shell_source_.format() != nullptr; }
  int64_t num_blocks() const override { return shell_->info().num_blocks; }
  std::string block_prefix(int64_t block) const override { return cat(shell_->block_name(block), "."); }

  std::vector<std::string> block_lists() const override { return shell_->block_lists(); }
  std::vector<LayerShape> layers() const override { return quantizable_layers(*shell_, *source_); }
  std::unique_ptr<models::DecoderBlock> make_block(int64_t block, nn::WeightSource& source) const override {
    return as_row_block(shell_->make_block(block, source), seen_.rope, seen_.text_tokens);
  }

  // The whole pipeline is in memory meanwhile.
  std::string calibrate(ProgressSink& progress) override {
    const auto pipeline = diffusion::ImagePipeline::load(
        folder_, {.load = options_.load, .vae_dtype = {}, .vae = {}, .cache = {}});
    seen_ = sample_trajectory(*pipeline, options_.trajectory, progress);
    const std::string& dataset = options_.trajectory.dataset;
    return cat(dataset.empty() ? "the built-in captions" : dataset, ": ", seen_.rows.size(0),
               " inputs of the first block from ", seen_.prompts, " captions, ", seen_.steps, " steps each");
  }

  Activations first_inputs() override { return {std::exchange(seen_.rows, {})}; }

  json calibration_settings() const override {
    const TrajectoryOptions& t = options_.trajectory;
    return {{"dataset", t.dataset},
            {"calib_samples", t.samples},
            {"nsamples", t.prompts},
            {"num_inference_steps", t.steps},
            {"width", t.width},
            {"height", t.height},
            {"max_sequence_length", t.text_tokens},
            {"guidance_scale", t.guidance_scale ? json(*t.guidance_scale) : json(nullptr)}};
  }

  std::filesystem::path pipeline() const override { return folder_.path(); }
  std::string component() const override { return kComponent; }

 private:
  const BlockModelOptions options_;
  const DiffusersFolder folder_;
  std::unique_ptr<Checkpoint> source_;
  nn::WeightSource shell_source_;
  std::unique_ptr<models::Dit> shell_;
  Trajectory seen_;
};

}  // namespace

std::unique_ptr<BlockModel> open_picture_model(const BlockModelOptions& options) {
  return std::make_unique<PictureModel>(options);
}

}  // namespace quaver::quantize
