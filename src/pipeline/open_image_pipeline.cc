#include "pipeline/open_image_pipeline.h"

#include <utility>

#include "base/log.h"
#include "checkpoint/diffusers_folder.h"
#include "formats/pipeline_components.h"
#include "nn/device.h"
#include "pipeline/check_image_memory.h"
#include "pipeline/dtype_names.h"
#include "pipeline/image_engine.h"
#include "pipeline/memory_plan.h"

namespace quaver::pipeline {

namespace {

at::ScalarType image_dtype(const std::string& name, at::Device device) {
  return parse_dtype(name, "dtype").value_or(device.is_cpu() ? at::kFloat : at::kBFloat16);
}

nn::LoadOptions load_options(const ImagePipelineOptions& options, const DiffusersFolder& folder,
                             at::Device device) {
  nn::LoadOptions load{.compute_dtype = image_dtype(options.dtype, device),
                       .device = device,
                       .kernel_layout_only = true,
                       .strict_activations = options.strict_activations};
  load.exact_activations = options.dtype == "float32";
  load.offload = options.offload && !device.is_cpu();
  if (options.offload && device.is_cpu())
    log_warning("--offload has no effect: the model runs where its weights would wait");
  if (!options.quantization.empty()) {
    const std::shared_ptr<const Checkpoint> files = models::open_dit(folder);
    if (nn::RoundPlain round = options.rounding(*files, options.quantization))  // borrows the files
      load.round_plain = [files, round = std::move(round)](const std::string& layer,
                                                           const at::Tensor& weight) {
        return round(layer, weight);
      };
  }
  return load;
}

ModelCard card_of(const ImagePipelineOptions& options, const DiffusersFolder& folder) {
  ModelCard card;
  card.path = options.model;
  card.capabilities = {"image_generation", "image_edit"};
  card.quantization = json::object();
  for (const PipelineComponent& part : pipeline_components(folder)) {
    card.weight_bytes += part.bytes;
    card.quantization[part.name] = part.format ? json(part.format->name) : json(nullptr);
  }
  if (!options.quantization.empty()) card.quantization["transformer"] = options.quantization;
  card.generation_defaults = json::object();
  return card;
}

diffusion::ImagePipelineOptions diffusion_options(const ImagePipelineOptions& options,
                                                  const DiffusersFolder& folder) {
  return {.load = load_options(options, folder, nn::parse_device(options.device)),
          .vae = {.tile = options.vae_tiling},
          .cache = diffusion::parse_step_cache(options.cache),
          .adapters = options.adapters,
          .ranks = options.ranks};
}

// `check` says how the model will be used.
std::shared_ptr<const diffusion::ImagePipeline> load_model(const ImagePipelineOptions& options,
                                                           ImageMemoryCheck check) {
  check_memory_limit(options.memory_limit);
  const DiffusersFolder folder = open_image_folder(options);
  const diffusion::ImagePipelineOptions load = diffusion_options(options, folder);
  check.limit = options.memory_limit;
  check.tell = options.tell_memory;
  check.width = options.planned_width;
  check.height = options.planned_height;
  check_image_memory(folder, load, check);
  return diffusion::ImagePipeline::load(folder, load);
}

int64_t batch_size(const ImagePipelineOptions& options) {
  using Kind = diffusion::StepCacheSettings::Kind;
  if (diffusion::parse_step_cache(options.cache).kind != Kind::kNone) {
    if (options.max_num_seqs > 1)
      log_warning("max_num_seqs ", options.max_num_seqs,
                  " has no effect: under a step cache pictures are computed one by one");
    return 1;
  }
  if (options.max_num_seqs > 0) return options.max_num_seqs;
  return nn::parse_device(options.device).is_cpu() ? 1 : 4;
}

}  // namespace

DiffusersFolder open_image_folder(const ImagePipelineOptions& options) {
  DiffusersFolder folder = DiffusersFolder::open(options.model);
  if (!options.transformer.empty()) folder.use_file("transformer", options.transformer);
  return folder;
}

std::shared_ptr<const diffusion::ImagePipeline> load_image_model(const ImagePipelineOptions& options) {
  return load_model(options, {});
}

void follow_image_model(const ImagePipelineOptions& options) {
  const DiffusersFolder folder = open_image_folder(options);
  diffusion::follow_image_pipeline(folder, diffusion_options(options, folder));
}

std::unique_ptr<ImagePipeline> open_image_pipeline(const ImagePipelineOptions& options) {
  const int64_t batch = batch_size(options);
  std::shared_ptr<const diffusion::ImagePipeline> model =
      load_model(options, {.pictures = batch, .max_pixels = options.limits.max_pixels});
  ModelCard card = card_of(options, open_image_folder(options));
  return start_image_engine(std::move(model), std::move(card),
                            {.max_batch = batch, .max_queue = options.max_queue, .limits = options.limits});
}

}  // namespace quaver::pipeline
