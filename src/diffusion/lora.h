// Puts the updates of LoRA files on a model's layers.
#pragma once

#include <span>

#include "diffusion/image_facts.h"
#include "diffusion/lora_names.h"
#include "nn/weight_source.h"

namespace quaver::diffusion {

// What a file's layers are that are for a text encoder and not among the components'.
enum class OtherLayers {
  kLacking,    // the model has no such layers: they are left out with a warning that counts them
  kElsewhere,  // another process has them
};

// Adapter i is the i-th scale of a nn::LowRankScope. What layers had before goes. Error(kBadFile) naming file
// and tensor for layers that the transformer lacks, shapes that don't fit, and numbers that are not finite;
// what LoraFile::open says.
void load_adapters(std::span<const Adapter> adapters, const std::vector<ComponentLinears>& components,
                   const LoraSpellings& spellings, const nn::LoadOptions& options,
                   OtherLayers others = OtherLayers::kLacking);

}  // namespace quaver::diffusion
