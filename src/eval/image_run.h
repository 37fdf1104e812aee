// One side of a comparison: its pictures, timed, with a look at the latents after each step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "diffusion/image_pipeline.h"

namespace quaver::eval {

struct DrawnPicture {
  Image image;
  std::vector<std::string> notes;  // what was cut off its prompts
  int64_t steps_skipped = 0;       // by a step cache
};

struct ImageRun {
  std::vector<DrawnPicture> pictures;
  // Of each measured pass over all pictures: seconds, and the most memory in bytes that the process (on an
  // accelerator: its allocator) held meanwhile; unset where the system can't say.
  std::vector<double> seconds;
  std::vector<std::optional<int64_t>> peak_bytes;
};

struct ImageRunOptions {
  int64_t warmup_runs = 0, measure_runs = 1;  // the latter at least 1
  std::function<bool()> stop;                 // asked before each step
};

// float32 on the CPU, contiguous: [1, tokens, channels].
using LatentSink = std::function<void(size_t picture, const at::Tensor& latents)>;

// Draws the specs one after another; `on_step` sees the first measured pass. Nothing when stopped. Throws
// what a job throws.
std::optional<ImageRun> run_images(const diffusion::ImagePipeline& model,
                                   const std::vector<diffusion::ImageSpec>& specs,
                                   const ImageRunOptions& options, const LatentSink& on_step,
                                   ProgressSink& progress);

}  // namespace quaver::eval
