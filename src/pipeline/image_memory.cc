#include "pipeline/image_memory.h"

#include <algorithm>
#include <memory>

#include "diffusion/family.h"
#include "models/text_encoder/text_encoder.h"

namespace quaver::pipeline {

namespace {

int64_t value_bytes(at::ScalarType dtype) { return static_cast<int64_t>(c10::elementSize(dtype)); }

// The options that build a model of shapes.
nn::LoadOptions shapes_alone(nn::LoadOptions load) {
  load.device = at::kMeta;
  load.round_plain = nullptr;
  load.offload = false;
  return load;
}

void list_layers(std::vector<PlannedLayer>& out, const std::vector<models::NamedLinear>& linears,
                 const std::string& prefix, int64_t block) {
  for (const models::NamedLinear& layer : linears)
    out.push_back({.name = prefix + layer.name,
                   .shape = {layer.linear->out_features(), layer.linear->in_features()},
                   .whole = layer.linear->whole_shape(),
                   .block = block,
                   .modulation = layer.modulation});
}

ResidentWeights measure_transformer(const DiffusersFolder& folder, const nn::LoadOptions& load,
                                    models::DitInfo& info) {
  const std::unique_ptr<Checkpoint> files = models::open_dit(folder);
  nn::WeightSource shapes(*files, shapes_alone(load));
  const std::unique_ptr<models::Dit> model = models::make_dit_shell(shapes);
  model->load_blocks(shapes);
  info = model->info();
  std::vector<PlannedLayer> layers;
  list_layers(layers, model->outer_linears(), "", -1);
  for (int64_t i = 0; i < info.num_blocks; ++i)
    list_layers(layers, model->block(i).linears(), cat(model->block_name(i), "."), i);
  return resident_weights(*files, load, layers);
}

ResidentWeights measure_encoder(const DiffusersFolder& folder, const std::string& name,
                                const nn::LoadOptions& load) {
  const std::unique_ptr<Checkpoint> files = folder.component(name);
  nn::WeightSource shapes(*files, shapes_alone(load));
  const std::unique_ptr<models::TextEncoder> model = models::make_text_encoder_shell(shapes);
  std::vector<PlannedLayer> layers;
  for (int64_t i = 0; i < model->info().num_blocks; ++i)
    list_layers(layers, model->make_block(i, shapes)->linears(),
                cat(model->info().blocks_prefix, ".", i, "."), i);
  return resident_weights(*files, load, layers);
}

ResidentWeights measure_vae(const DiffusersFolder& folder, nn::LoadOptions load, models::ImageVaeInfo& info) {
  const std::unique_ptr<Checkpoint> files = models::present_image_vae(folder.component("vae"));
  nn::WeightSource shapes(*files, shapes_alone(load));
  info = models::load_image_vae(shapes)->info();
  load.compute_dtype = info.dtype;
  return resident_weights(*files, load, {});
}

int64_t tokens_of(const ImageMemory& model, const ImageUse& use) {
  return (use.width / model.unit()) * (use.height / model.unit()) + model.defaults.text_tokens;
}

int64_t branches_of(const ImageMemory& model) {
  return model.defaults.guidance_kind == diffusion::GuidanceKind::kTrue ? 2 : 1;
}

int64_t step_bytes(const ImageMemory& model, const ImageUse& use) {
  const int64_t branches = std::max<int64_t>(1, branches_of(model) / use.ranks.cfg);
  return use.pictures * branches * tokens_of(model, use) / use.ranks.ulysses * model.dit.values_per_token *
             value_bytes(model.dtype) +
         model.transformer.expanded;
}

// In tiles the picture lies there twice: its rows of tiles, and put together.
int64_t decode_bytes(const ImageMemory& model, const ImageUse& use) {
  const models::ImageVaeInfo& vae = model.autoencoder;
  const int64_t pixels = use.width * use.height, tile = vae.sample_pixels * vae.sample_pixels;
  const bool tiled = use.tiling && std::max(use.width, use.height) > vae.sample_pixels;
  const int64_t at_once = tiled ? std::min(pixels, tile) : pixels;
  return (at_once * vae.values_per_pixel + (tiled ? 2 : 1) * pixels * vae.image_channels) *
         value_bytes(vae.dtype);
}

// The device's slots for the layers of blocks (nn/offload.h).
int64_t slot_bytes(const ResidentWeights& weights) {
  return std::min(weights.blocks, 2 * weights.largest_block);
}

std::string sized(const char* what, const ImageUse& use) {
  const std::string size = cat(what, " ", use.width, "x", use.height);
  return use.pictures > 1 ? cat(size, ", ", use.pictures, " at once") : size;
}

void add_whole(MemoryPlan& plan, const ImageMemory& model, const ImageUse& use) {
  for (const ImageMemory::Encoder& encoder : model.encoders)
    plan.resident.push_back({encoder.name, encoder.weights.total()});
  plan.resident.push_back({"transformer", model.transformer.total()});
  plan.resident.push_back({"vae", model.vae.total()});
  plan.passing.push_back({sized("drawing", use), step_bytes(model, use)});
  plan.passing.push_back(
      {sized("decoding", {.width = use.width, .height = use.height}), decode_bytes(model, use)});
}

void add_offloaded(MemoryPlan& plan, const ImageMemory& model, const ImageUse& use) {
  int64_t prompts = 0;
  for (const ImageMemory::Encoder& encoder : model.encoders) {
    plan.resident.push_back({encoder.name, encoder.weights.rest});
    plan.host += encoder.weights.blocks + encoder.weights.tables;
    prompts = std::max(prompts, slot_bytes(encoder.weights));
  }
  plan.resident.push_back({"transformer", model.transformer.rest + slot_bytes(model.transformer)});
  plan.host += model.transformer.blocks + model.vae.total();
  plan.passing.push_back({"reading a prompt", prompts});
  plan.passing.push_back({sized("drawing", use), step_bytes(model, use)});
  plan.passing.push_back({sized("decoding", {.width = use.width, .height = use.height}),
                          model.vae.total() + decode_bytes(model, use)});
}

}  // namespace

ImageMemory image_memory(const DiffusersFolder& folder, const diffusion::ImagePipelineOptions& options) {
  const diffusion::ImageFamily& family = diffusion::image_family_of(folder);
  ImageMemory out;
  nn::LoadOptions load = options.load;
  out.dtype = load.compute_dtype;
  out.on_host = load.device.is_cpu();
  nn::LoadOptions plain = load;
  plain.round_plain = nullptr;
  for (const diffusion::PromptReader& reader : family.readers)
    out.encoders.push_back({reader.component, measure_encoder(folder, reader.component, plain)});
  plain.compute_dtype = diffusion::vae_dtype(options);
  out.vae = measure_vae(folder, plain, out.autoencoder);
  if (options.ranks) load.tensor_ranks = options.ranks->tensor_ranks();
  out.transformer = measure_transformer(folder, load, out.dit);
  out.defaults = family.defaults(out.dit);
  return out;
}

MemoryPlan plan_memory(const ImageMemory& model, const ImageUse& asked) {
  ImageUse use = asked;
  if (use.width == 0) use.width = use.height = model.default_side();
  MemoryPlan plan;
  if (use.offload)
    add_offloaded(plan, model, use);
  else
    add_whole(plan, model, use);
  plan.mapped = model.transformer.mapped + model.vae.mapped;
  for (const ImageMemory::Encoder& encoder : model.encoders) plan.mapped += encoder.weights.mapped;
  return plan;
}

ImageMemory as_int4(ImageMemory model) {
  ResidentWeights& weights = model.transformer;
  if (weights.blocks == 0) return model;
  const int64_t left = weights.blocks - weights.roundable + weights.as_int4;
  weights.largest_block =
      static_cast<int64_t>(static_cast<double>(weights.largest_block) * static_cast<double>(left) /
                           static_cast<double>(weights.blocks));
  weights.blocks = left;
  weights.roundable = 0;
  return model;
}

int64_t largest_picture(const ImageMemory& model, ImageUse use, int64_t bytes) {
  int64_t side = 0;
  for (int64_t step = int64_t{1} << 17; step >= model.unit(); step /= 2) {
    use.width = use.height = side + step / model.unit() * model.unit();
    if (plan_memory(model, use).peak() <= bytes) side = use.width;
  }
  return side * side;
}

}  // namespace quaver::pipeline
