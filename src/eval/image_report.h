// A comparison's outcome for programs (JSON) and for people (a page of its own).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "eval/image_comparison.h"

namespace quaver::eval {

struct VariantSettings {
  std::string model, quantization, cache, dtype;  // as given
  std::vector<std::string> loras;                 // files, with their scales
};

struct ImageReport {
  VariantSettings reference, candidate;
  std::vector<diffusion::ImageSpec> specs;  // prompts and seeds in order; the rest is equal in all
  std::vector<std::string> prompts;
  std::vector<uint64_t> seeds;  // of each prompt's pictures
  int64_t pictures_per_seed = 1;
  double guidance_scale = 0, true_cfg_scale = 1;
  int64_t warmup_runs = 0;
  ImageRun reference_run, candidate_run;
  std::vector<PictureComparison> pictures;
  std::vector<LimitResult> limits;
  json saved_outputs;  // null: none were saved
};

// Strict JSON: what has no finite value is null. Keys: docs/comparing.md.
json report_json(const ImageReport& report);

// HTML that needs no other file: the means, then each pair with its difference, `gain` times as strong, and
// the latents' distance over the steps.
std::string report_html(const ImageReport& report, double gain);

}  // namespace quaver::eval
