// A loaded picture model: text encoders, transformer, autoencoder and scheduler of one folder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "checkpoint/diffusers_folder.h"
#include "diffusion/family.h"
#include "diffusion/image_facts.h"
#include "diffusion/image_spec.h"
#include "diffusion/schedule.h"
#include "diffusion/step_cache.h"
#include "diffusion/transformer_ranks.h"
#include "models/dit/dit.h"
#include "models/vae/image_vae.h"

namespace quaver::diffusion {

struct ImagePipelineOptions {
  nn::LoadOptions
      load;  // of every component; what rounds plain weights rounds those of the transformer alone
  // Of the autoencoder; unset: float32 where the transformer is float16 or float32, else as the transformer.
  std::optional<at::ScalarType> vae_dtype;
  models::VaeOptions vae;
  StepCacheSettings cache;
  std::vector<Adapter> adapters;
  // Who computes the transformer together, borrowed; null: this process alone.
  nn::RankWorld* ranks = nullptr;
};

// What the autoencoder is loaded in.
at::ScalarType vae_dtype(const ImagePipelineOptions& options);

// Immutable once loaded; thread safe.
class ImagePipeline {
 public:
  // Error(kUnsupported) listing the classes that are known; else what components say, naming them.
  static std::unique_ptr<ImagePipeline> load(const DiffusersFolder& folder,
                                             const ImagePipelineOptions& options);

  const ImageFacts& facts() const { return facts_; }
  // Of several ranks: what rank 0 holds.
  const models::Dit& transformer() const { return *transformer_; }
  // The transformer's velocity, of all ranks together.
  at::Tensor velocity(StepCache& cache, const models::DitInput& input) const;
  bool lost_ranks() const { return ranks_ && ranks_->lost(); }
  const models::ImageVae& vae() const { return *vae_; }
  const PromptEncoder& prompts() const { return *prompts_; }
  const ImagePipelineOptions& options() const { return options_; }
  Schedule schedule(const ImageSpec& spec) const;
  // What guidance a request's numbers make; unset ones take the defaults. `true_scale` is for families whose
  // guidance is distilled and needs a negative prompt.
  Guidance guidance(std::optional<double> scale, std::optional<double> true_scale, bool has_negative) const;

 private:
  ImagePipeline() = default;
  void add_adapters(const ImageFamily& family);

  ImageFacts facts_;
  ImagePipelineOptions options_;
  FlowMatchSettings scheduler_;
  std::unique_ptr<PromptEncoder> prompts_;
  std::unique_ptr<models::Dit> transformer_;
  std::unique_ptr<models::ImageVae> vae_;
  std::unique_ptr<TransformerRanks> ranks_;
};

// What ranks beyond 0 do where rank 0 calls ImagePipeline::load with the same options: this one loads its
// part of the transformer and computes passes until rank 0 lets go of the pipeline. Errors as load's and
// follow_transformer's; rank 0 is told of them.
void follow_image_pipeline(const DiffusersFolder& folder, const ImagePipelineOptions& options);

}  // namespace quaver::diffusion
