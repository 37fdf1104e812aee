// What a picture model's transformer sees on its way from noise to pictures: samples of it, by strata.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "diffusion/image_pipeline.h"

namespace quaver::quantize {

struct TrajectoryOptions {
  std::string dataset;    // captions; empty: the built-in ones
  int64_t samples = 128;  // inputs of the first block in all
  int64_t prompts = 32;   // captions at most; each gives samples / prompts inputs
  int64_t steps = 0;      // of the way from noise; 0: the family's own
  std::optional<double> guidance_scale;
  int64_t width = 0, height = 0;  // 0: the model's own
  int64_t text_tokens = 0;        // the same
  uint64_t seed = 42;
};

// One row per sample, as dit_rows() makes them.
struct Trajectory {
  at::Tensor rows;      // [samples, text + image + 1, width]
  nn::RopeAngles rope;  // of every row
  int64_t text_tokens = 0;
  int64_t prompts = 0, steps = 0;
};

// Draws pictures of captions and keeps inputs of the first block: the steps are cut into as many strata as a
// caption gives inputs, and each caption's are drawn one from each stratum. So memory is that of `samples`
// inputs, however many captions and steps there are. Where guidance takes two branches both are seen in turn.
// The captions' rows of text come from the pipeline's own encoders.
Trajectory sample_trajectory(const diffusion::ImagePipeline& model, const TrajectoryOptions& options,
                             ProgressSink& progress);

}  // namespace quaver::quantize
