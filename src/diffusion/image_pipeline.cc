#include "diffusion/image_pipeline.h"

#include <utility>

#include "base/error.h"
#include "diffusion/lora.h"

namespace quaver::diffusion {

at::ScalarType vae_dtype(const ImagePipelineOptions& options) {
  if (options.vae_dtype) return *options.vae_dtype;
  return options.load.compute_dtype == at::kBFloat16 ? at::kBFloat16 : at::kFloat;
}

namespace {

std::unique_ptr<models::ImageVae> load_vae(const DiffusersFolder& folder,
                                           const ImagePipelineOptions& options) {
  const std::unique_ptr<Checkpoint> files = models::present_image_vae(folder.component("vae"));
  nn::LoadOptions plain = options.load;
  plain.round_plain = nullptr;
  plain.compute_dtype = vae_dtype(options);
  nn::WeightSource source(*files, plain);
  return models::load_image_vae(source);
}

std::unique_ptr<models::Dit> load_transformer(const DiffusersFolder& folder,
                                              const ImagePipelineOptions& options) {
  const std::unique_ptr<Checkpoint> files = models::open_dit(folder);
  nn::LoadOptions load = options.load;
  if (options.ranks) {
    load.tensor_ranks = options.ranks->tensor_ranks();
    load.sequence_ranks = options.ranks->sequence_ranks();
  }
  nn::WeightSource source(*files, load);
  std::unique_ptr<models::Dit> model = models::load_dit(source);
  model->prepare();
  return model;
}

StepCacheSettings cache_settings(const ImagePipelineOptions& options, const ImageFamily& family) {
  StepCacheSettings cache = options.cache;
  if (cache.polynomial.empty()) cache.polynomial = family.cache_polynomial;
  return cache;
}

FlowMatchSettings read_scheduler(const DiffusersFolder& folder) {
  const json config = folder.component_file("scheduler", "scheduler_config.json");
  const std::string file = (folder.component_path("scheduler") / "scheduler_config.json").string();
  require(!config.is_null(), ErrorKind::kNotFound, file, ": does not exist");
  return read_flow_match(config, file);
}

void check_fit(const DiffusersFolder& folder, const models::Dit& transformer, const models::ImageVae& vae) {
  const int64_t channels = transformer.info().channels, latent = vae.info().latent_channels;
  require(channels == 4 * latent, ErrorKind::kBadFile, (folder.path() / "vae").string(),
          ": its latents have ", latent, " channels, but the transformer takes tokens of ", channels,
          ", expected 4 times as many");
}

}  // namespace

std::unique_ptr<ImagePipeline> ImagePipeline::load(const DiffusersFolder& folder,
                                                   const ImagePipelineOptions& options) {
  const ImageFamily& family = image_family_of(folder);
  std::unique_ptr<ImagePipeline> out(new ImagePipeline);
  out->options_ = options;
  out->options_.cache = cache_settings(options, family);
  out->scheduler_ = read_scheduler(folder);
  out->vae_ = load_vae(folder, options);  // the smallest first: it is what is missing most often
  nn::LoadOptions plain = options.load;
  plain.round_plain = nullptr;
  out->prompts_ = family.load_prompt_encoder(folder, plain);
  out->transformer_ = load_transformer(folder, options);
  check_fit(folder, *out->transformer_, *out->vae_);
  out->add_adapters(family);
  ImageFacts& facts = out->facts_;
  facts.adapters = options.adapters;
  facts.family = family.name;
  facts.defaults = family.defaults(out->transformer_->info());
  facts.unit = 2 * out->vae_->info().scale;
  facts.default_width = facts.default_height = out->vae_->info().sample_pixels / facts.unit * facts.unit;
  if (options.ranks) facts.guidance_ranks = options.ranks->sizes().cfg;
  if (options.ranks) out->ranks_ = std::make_unique<TransformerRanks>(*options.ranks, *out->transformer_);
  return out;
}

at::Tensor ImagePipeline::velocity(StepCache& cache, const models::DitInput& input) const {
  return ranks_ ? ranks_->forward(cache, input) : cache.forward(*transformer_, input);
}

void follow_image_pipeline(const DiffusersFolder& folder, const ImagePipelineOptions& options) {
  const ImageFamily& family = image_family_of(folder);
  std::unique_ptr<models::Dit> transformer;
  try {
    transformer = load_transformer(folder, options);
    if (!options.adapters.empty())
      load_adapters(options.adapters, {{"transformer", transformer->linears()}}, family.lora, options.load,
                    OtherLayers::kElsewhere);
  } catch (const std::exception& e) {
    options.ranks->follower().give_up(e.what());
    throw;
  }
  follow_transformer(*options.ranks, *transformer, cache_settings(options, family));
}

void ImagePipeline::add_adapters(const ImageFamily& family) {
  if (options_.adapters.empty()) return;
  std::vector<ComponentLinears> components = prompts_->linears();
  components.push_back({"transformer", transformer_->linears()});
  load_adapters(options_.adapters, components, family.lora, options_.load);
}

Schedule ImagePipeline::schedule(const ImageSpec& spec) const {
  const int64_t tokens = spec.width / facts_.unit * (spec.height / facts_.unit);
  const Schedule whole = flow_match_schedule(scheduler_, spec.steps, tokens);
  return spec.source ? whole.tail(spec.strength) : whole;
}

Guidance ImagePipeline::guidance(std::optional<double> scale, std::optional<double> true_scale,
                                 bool has_negative) const {
  const double asked = scale.value_or(facts_.defaults.guidance_scale);
  if (facts_.defaults.guidance_kind == GuidanceKind::kTrue) return {.scale = true_scale.value_or(asked)};
  // Without a negative prompt the second branch would see an empty one that nobody asked for.
  return {.embedded = asked, .scale = has_negative ? true_scale.value_or(1) : 1};
}

bool may_share_batch(const ImageSpec& a, const ImageSpec& b) {
  return a.width == b.width && a.height == b.height && a.steps == b.steps && a.text_tokens == b.text_tokens &&
         a.guidance.embedded == b.guidance.embedded && a.guidance.scale == b.guidance.scale &&
         (a.source == nullptr) == (b.source == nullptr) && (a.mask == nullptr) == (b.mask == nullptr) &&
         a.strength == b.strength && a.adapter_scales == b.adapter_scales;
}

}  // namespace quaver::diffusion
