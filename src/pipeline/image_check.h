// From a client's wishes to complete specs: the one check of every limit, whichever route they came by.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diffusion/image_pipeline.h"
#include "diffusion/image_spec.h"
#include "pipeline/image_request.h"

namespace quaver::pipeline {

// One spec per picture. Throws Error(kInvalidInput) whose field is the request's: "prompt", "n", "size",
// "num_inference_steps", "guidance_scale", "true_cfg_scale", "seed", "strength", "mask_image",
// "max_sequence_length", "partial_images", "lora". Sizes are honoured or refused, never rounded: the refusal
// names the nearest legal ones.
std::vector<diffusion::ImageSpec> check_image_request(const ImageRequest& request,
                                                      const diffusion::ImagePipeline& model,
                                                      const ImageRequestLimits& limits);

// Fields of the request that this model does not heed, a sentence each. `guidance` is that of its specs.
std::vector<std::string> idle_fields(const ImageRequest& request, const diffusion::ImageFacts& facts,
                                     const diffusion::Guidance& guidance);

}  // namespace quaver::pipeline
