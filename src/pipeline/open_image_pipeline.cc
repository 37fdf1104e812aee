#include "pipeline/open_image_pipeline.h"

#include <utility>

#include "base/log.h"
#include "checkpoint/diffusers_folder.h"
#include "formats/pipeline_components.h"
#include "nn/device.h"
#include "pipeline/dtype_names.h"
#include "pipeline/image_engine.h"

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
  if (!options.quantization.empty())
    load.round_plain = options.rounding(*folder.component("transformer"), options.quantization);
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

}  // namespace

std::shared_ptr<const diffusion::ImagePipeline> load_image_model(const ImagePipelineOptions& options) {
  const at::Device device = nn::parse_device(options.device);
  const diffusion::StepCacheSettings cache = diffusion::parse_step_cache(options.cache);
  const DiffusersFolder folder = DiffusersFolder::open(options.model);
  return diffusion::ImagePipeline::load(folder, {.load = load_options(options, folder, device),
                                                 .vae = {.tile = options.vae_tiling},
                                                 .cache = cache,
                                                 .adapters = options.adapters});
}

std::unique_ptr<ImagePipeline> open_image_pipeline(const ImagePipelineOptions& options) {
  const at::Device device = nn::parse_device(options.device);
  std::shared_ptr<const diffusion::ImagePipeline> model = load_image_model(options);
  ModelCard card = card_of(options, DiffusersFolder::open(options.model));
  int64_t batch = options.max_num_seqs > 0 ? options.max_num_seqs : device.is_cpu() ? 1 : 4;
  if (model->options().cache.kind != diffusion::StepCacheSettings::Kind::kNone) {
    if (options.max_num_seqs > 1)
      log_warning("max_num_seqs ", options.max_num_seqs,
                  " has no effect: under a step cache pictures are computed ", "one by one");
    batch = 1;
  }
  return start_image_engine(std::move(model), std::move(card),
                            {.max_batch = batch, .max_queue = options.max_queue, .limits = options.limits});
}

}  // namespace quaver::pipeline
