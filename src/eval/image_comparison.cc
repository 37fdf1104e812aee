#include "eval/image_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/cat.h"
#include "eval/image_metrics.h"

namespace quaver::eval {

namespace {

constexpr PictureMetric kPictureMetrics[] = {
    {"psnr_db", "picture: PSNR, dB", "min-psnr", [](const PictureComparison& p) { return p.pixels.psnr_db; }},
    {"ssim", "picture: structural similarity", "min-ssim", [](const PictureComparison& p) { return p.ssim; }},
    {"lpips", "picture: LPIPS over AlexNet", "max-lpips", [](const PictureComparison& p) { return p.lpips; }},
    {"cosine_similarity", "picture: cosine", "min-cosine",
     [](const PictureComparison& p) { return p.pixels.cosine_similarity; }},
    {"mae", "picture: mean absolute error, of 255", "max-mae",
     [](const PictureComparison& p) { return p.pixels.mae; }},
    {"relative_l2", "picture: relative L2", "max-relative-l2",
     [](const PictureComparison& p) { return p.pixels.relative_l2; }},
    {"latent_cosine_similarity", "last latents: cosine", "min-latent-cosine",
     [](const PictureComparison& p) { return p.steps.back().cosine_similarity; }},
    {"latent_relative_l2", "last latents: relative L2", "max-latent-relative-l2",
     [](const PictureComparison& p) { return p.steps.back().relative_l2; }},
    {"latent_psnr_db", "last latents: PSNR, dB", "min-latent-psnr",
     [](const PictureComparison& p) { return p.steps.back().psnr_db; }},
};

// How good, larger is better; what has no value is worst of all.
double goodness(const PictureMetric& metric, const PictureComparison& picture) {
  const double value = metric.value(picture);
  if (std::isnan(value)) return -INFINITY;
  return metric.is_lower_limit() ? value : -value;
}

LimitResult check_limit(const PictureLimit& limit, const std::vector<PictureComparison>& pictures) {
  LimitResult out{.limit = limit};
  const double least = limit.metric->is_lower_limit() ? limit.limit : -limit.limit;
  for (size_t i = 0; i < pictures.size(); ++i) {
    const double good = goodness(*limit.metric, pictures[i]);
    if (!(good >= least)) ++out.failed;
    if (good < goodness(*limit.metric, pictures[out.worst])) out.worst = i;
  }
  return out;
}

}  // namespace

std::vector<PictureComparison> compare_pictures(const std::vector<diffusion::ImageSpec>& specs,
                                                const ImageRun& reference, const ImageRun& candidate,
                                                const std::vector<std::vector<Difference>>& latents) {
  std::vector<PictureComparison> out;
  for (size_t i = 0; i < specs.size(); ++i) {
    const Image &a = reference.pictures.at(i).image, &b = candidate.pictures.at(i).image;
    PictureComparison picture{.prompt = specs[i].prompt, .seed = specs[i].seed};
    picture.pixel_sums = pixel_sums(a, b);
    picture.pixels = picture.pixel_sums.difference(kPixelPeak);
    picture.ssim = structural_similarity(a, b);
    picture.steps = latents.at(i);
    out.push_back(std::move(picture));
  }
  return out;
}

std::span<const PictureMetric> picture_metrics() { return kPictureMetrics; }

MeanEstimate mean_of(const PictureMetric& metric, const std::vector<PictureComparison>& pictures) {
  std::vector<std::vector<double>> clusters;
  bool any = false;
  for (size_t i = 0; i < pictures.size(); ++i) {
    if (i == 0 || pictures[i].prompt != pictures[i - 1].prompt) clusters.emplace_back();
    const double value = metric.value(pictures[i]);
    if (!std::isfinite(value)) continue;
    clusters.back().push_back(value);
    any = true;
  }
  return any ? bootstrap_mean(clusters) : MeanEstimate{};
}

std::vector<LimitResult> check_limits(const std::vector<PictureLimit>& limits,
                                      const std::vector<PictureComparison>& pictures) {
  std::vector<LimitResult> out;
  for (const PictureLimit& limit : limits) out.push_back(check_limit(limit, pictures));
  return out;
}

std::string sentence_of(const LimitResult& result, const std::vector<PictureComparison>& pictures) {
  const PictureComparison& worst = pictures.at(result.worst);
  char value[32];
  std::snprintf(value, sizeof value, "%.5g", result.limit.metric->value(worst));
  return cat("--", result.limit.metric->flag, " ", result.limit.limit, " is ",
             result.failed > 0 ? cat("missed by ", result.failed, " of ") : "met by all of ", pictures.size(),
             pictures.size() == 1 ? " picture" : " pictures", "; the worst, ", value, ", is of '",
             worst.prompt, "' with seed ", worst.seed);
}

}  // namespace quaver::eval
