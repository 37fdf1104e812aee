// One row per family of picture models: which pipelines are of it, its defaults, and who reads its prompts.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>

#include "checkpoint/diffusers_folder.h"
#include "diffusion/image_facts.h"
#include "diffusion/lora_names.h"
#include "diffusion/prompt.h"
#include "diffusion/prompt_reader.h"
#include "models/dit/dit.h"
#include "nn/weight_source.h"

namespace quaver::diffusion {

struct ImageFamily {
  const char* name;                                     // for display
  std::initializer_list<std::string_view> class_names;  // model_index.json's "_class_name"
  ImageDefaults (*defaults)(const models::DitInfo& transformer);
  // The components that read prompts, and how.
  std::initializer_list<PromptReader> readers;
  // These, loaded. Errors name the component.
  std::unique_ptr<PromptEncoder> (*load_prompt_encoder)(const DiffusersFolder& folder,
                                                        const nn::LoadOptions& options);
  // Maps the change of the first block's input between two steps to that of the output, highest power first;
  // fitted on the family's largest model. Empty: taken as it is.
  std::initializer_list<double> cache_polynomial;
  LoraSpellings lora = {};  // names of its own in LoRA files
};

std::span<const ImageFamily> image_families();

// Null when no row knows the class.
const ImageFamily* find_image_family(std::string_view class_name);

// Error(kUnsupported) listing the classes that are known.
const ImageFamily& image_family_of(const DiffusersFolder& folder);

}  // namespace quaver::diffusion
