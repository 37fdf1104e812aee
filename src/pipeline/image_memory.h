// The memory plan of a picture model: what its folder's headers and the sizes of pictures say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/diffusers_folder.h"
#include "diffusion/image_pipeline.h"
#include "nn/rank_world.h"
#include "pipeline/memory_plan.h"
#include "pipeline/resident_weights.h"

namespace quaver::pipeline {

// A picture model without its weights.
struct ImageMemory {
  struct Encoder {
    std::string name;
    ResidentWeights weights;
  };
  std::vector<Encoder> encoders;
  ResidentWeights transformer, vae;
  models::DitInfo dit;
  models::ImageVaeInfo autoencoder;
  diffusion::ImageDefaults defaults;
  at::ScalarType dtype = at::kFloat;
  bool on_host = true;

  int64_t unit() const { return 2 * autoencoder.scale; }  // pixels of a token, in height and in width
  int64_t default_side() const { return autoencoder.sample_pixels / unit() * unit(); }
};

// Reads headers and configs, and a few layers (resident_weights.h). Errors as loading gives them. Of several
// ranks: what this one holds.
ImageMemory image_memory(const DiffusersFolder& folder, const diffusion::ImagePipelineOptions& options);

// How the model will be used.
struct ImageUse {
  int64_t width = 0, height = 0;  // 0: the model's default
  int64_t pictures = 1;           // computed together
  bool tiling = false, offload = false;
  nn::RankSizes ranks;  // which divide branches and tokens
};

// A step holds DitInfo::values_per_token for each token of text and picture, of each picture and branch of
// guidance, and the dense form of the layer that is being multiplied where weights are codes on a GPU;
// decoding holds ImageVaeInfo::values_per_pixel for each pixel of the picture, or of a tile, and the finished
// pictures. Prompts are read in less than either.
MemoryPlan plan_memory(const ImageMemory& model, const ImageUse& use);

// What --quantization int4 would about leave of it.
ImageMemory as_int4(ImageMemory model);

// The most pixels of a picture for which the plan stays within `bytes` on the device; 0 where none does.
int64_t largest_picture(const ImageMemory& model, ImageUse use, int64_t bytes);

}  // namespace quaver::pipeline
