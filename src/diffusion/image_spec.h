// A picture to make, complete and checked: what a job works from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "diffusion/guidance.h"
#include "media/image.h"

namespace quaver::diffusion {

struct ImageSpec {
  std::string prompt, negative_prompt;
  int64_t width = 0, height = 0;  // multiples of ImageFacts::unit
  int64_t steps = 0;
  int64_t text_tokens = 0;  // what the longer text encoder is given
  Guidance guidance;
  uint64_t seed = 0;
  at::Tensor noise;  // float32 [1, tokens, channels]: what a job starts from in place of the seed's draw
  // Start from this picture, of width x height, instead of from noise; and redo only where the mask, of the
  // same size, is white (128 and above).
  std::shared_ptr<const Image> source;
  std::shared_ptr<const GrayImage> mask;
  // How strongly each of ImageFacts::adapters runs; empty: none does.
  std::vector<double> adapter_scales;
  double strength = 1;  // share of the steps that a source goes through, above 0, at most 1
};

// True when both may be one batch: everything but prompts, seeds, sources and masks is equal.
bool may_share_batch(const ImageSpec& a, const ImageSpec& b);

}  // namespace quaver::diffusion
