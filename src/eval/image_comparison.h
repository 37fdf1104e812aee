// Two runs over the same prompts and noise: how far their pictures are apart, in means and against limits.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "eval/bootstrap.h"
#include "eval/difference.h"
#include "eval/image_run.h"

namespace quaver::eval {

struct PictureComparison {
  std::string prompt;
  uint64_t seed = 0;
  DifferenceSums pixel_sums;
  Difference pixels;
  double ssim = 0;
  double lpips = std::numeric_limits<double>::quiet_NaN();  // where there are weights for it
  std::vector<Difference> steps;                            // of the latents after each
};

// Precondition: both runs are of these specs.
std::vector<PictureComparison> compare_pictures(const std::vector<diffusion::ImageSpec>& specs,
                                                const ImageRun& reference, const ImageRun& candidate,
                                                const std::vector<std::vector<Difference>>& latents);

// One row per number that has a mean and may have a limit.
struct PictureMetric {
  const char* key;   // "psnr_db"
  const char* text;  // "PSNR of the picture, dB"
  const char* flag;  // of its limit: "min-psnr" is a lower one, "max-mae" an upper
  double (*value)(const PictureComparison& picture);
  bool is_lower_limit() const { return flag[1] == 'i'; }
};
std::span<const PictureMetric> picture_metrics();

// Over the pictures whose value is finite, those of one prompt as one cluster; count is 0 where there are
// none.
MeanEstimate mean_of(const PictureMetric& metric, const std::vector<PictureComparison>& pictures);

struct PictureLimit {
  const PictureMetric* metric;
  double limit = 0;
};
struct LimitResult {
  PictureLimit limit;
  size_t failed = 0;  // pictures beyond it, or without a value
  size_t worst = 0;   // index of the picture that is worst by this metric
};
// Every picture is held to every limit: a mean would hide the one that broke.
std::vector<LimitResult> check_limits(const std::vector<PictureLimit>& limits,
                                      const std::vector<PictureComparison>& pictures);
// "--min-psnr 30 is missed by 2 of 8 pictures; the worst, 24.31, is of 'a red circle' with seed 42".
std::string sentence_of(const LimitResult& result, const std::vector<PictureComparison>& pictures);

}  // namespace quaver::eval
