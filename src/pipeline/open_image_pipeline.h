// A picture model and its engine as a pipeline.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/diffusers_folder.h"
#include "nn/weight_source.h"
#include "pipeline/image_check.h"
#include "pipeline/pipeline.h"

namespace quaver::pipeline {

struct ImagePipelineOptions {
  std::string model;           // a folder in the diffusers layout
  std::string transformer;     // file of its transformer's weights; empty: the folder's own
  std::string device = "cpu";  // "cpu", "cuda", "cuda:1"
  // Of activations: auto, float32, float16 or bfloat16. auto is float32 on the CPU, bfloat16 elsewhere.
  std::string dtype = "auto";
  int64_t max_num_seqs = 0;  // pictures computed together; 0 = 1 on the CPU, else 4
  int64_t max_queue = 1024;
  bool strict_activations = true;  // inputs of layers are quantized where the checkpoint asks for it
  // What plain weights of the transformer's blocks are rounded to while they load; as TextPipelineOptions.
  std::string quantization;
  nn::RoundPlain (*rounding)(const Checkpoint& checkpoint, const std::string& name) = nullptr;
  // diffusion::parse_step_cache. With one, pictures are computed one by one: a batch would decide as a whole,
  // and a picture would depend on its company.
  std::string cache = "none";
  bool vae_tiling = false;
  bool offload = false;               // nn::LoadOptions::offload; without effect on the CPU, with a warning
  std::string memory_limit = "free";  // what the model may hold: memory_plan.h
  bool tell_memory = false;           // log the plan
  // Of the pictures that memory is planned for; 0: the model's default size.
  int64_t planned_width = 0, planned_height = 0;
  std::vector<diffusion::Adapter> adapters;  // loaded with the model; with names of their own
  ImageRequestLimits limits;
  nn::RankWorld* ranks =
      nullptr;  // who computes the transformer together, borrowed; null: this process alone
};

// The model's folder, with what stands for its transformer.
DiffusersFolder open_image_folder(const ImagePipelineOptions& options);

// Loads the model; for those who run jobs themselves. Throws Error as open_text_pipeline does.
std::shared_ptr<const diffusion::ImagePipeline> load_image_model(const ImagePipelineOptions& options);

// What ranks beyond 0 do where rank 0 opens the model with the same options:
// diffusion::follow_image_pipeline.
void follow_image_model(const ImagePipelineOptions& options);

// Loads the model and starts its engine.
std::unique_ptr<ImagePipeline> open_image_pipeline(const ImagePipelineOptions& options);

}  // namespace quaver::pipeline
