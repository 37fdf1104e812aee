// Tells what a picture model will hold in memory before it is loaded, and refuses one that can't fit.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/diffusers_folder.h"
#include "diffusion/image_pipeline.h"

namespace quaver::pipeline {

struct ImageMemoryCheck {
  std::string limit = "free";     // memory_plan.h
  bool tell = false;              // log the plan
  int64_t pictures = 1;           // computed together when there are so many requests
  int64_t width = 0, height = 0;  // of the picture that will be drawn; 0: not known, the model's default
  int64_t max_pixels = 0;         // that one request may ask for; 0: not known
};

// Error(kOutOfMemory) naming the flags that would help where not even one picture at a time
// fits; a warning where one does and `pictures` don't.
void check_image_memory(const DiffusersFolder& folder, const diffusion::ImagePipelineOptions& options,
                        const ImageMemoryCheck& check);

}  // namespace quaver::pipeline
