// The JSON of a comparison.
#include <algorithm>
#include <numeric>

#include "eval/image_metrics.h"
#include "eval/image_report.h"

namespace quaver::eval {

namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

json text_or_null(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }

json settings_json(const char* label, const VariantSettings& variant) {
  return {{"label", label},
          {"model", variant.model},
          {"quantization", text_or_null(variant.quantization)},
          {"quantization_config", nullptr},
          {"diffusion_load_format", "default"},
          {"cache", variant.cache},
          {"dtype", variant.dtype},
          {"lora", variant.loras}};
}

json generation_json(const ImageRun& run) {
  json out = {{"generation_time_s", mean(run.seconds)},
              {"avg_generation_time_s", mean(run.seconds)},
              {"per_run_generation_time_s", run.seconds}};
  std::vector<double> megabytes;
  for (const std::optional<int64_t>& bytes : run.peak_bytes)
    if (bytes) megabytes.push_back(static_cast<double>(*bytes) / (1 << 20));
  const bool known = megabytes.size() == run.peak_bytes.size();
  out["per_run_peak_memory_mb"] = known ? json(megabytes) : json(nullptr);
  out["avg_peak_memory_mb"] = known ? json(mean(megabytes)) : json(nullptr);
  out["max_peak_memory_mb"] = known ? json(*std::ranges::max_element(megabytes)) : json(nullptr);
  out["peak_memory_mb"] = out["max_peak_memory_mb"];
  return out;
}

json output_metrics(const std::vector<PictureComparison>& pictures) {
  DifferenceSums all;
  for (const PictureComparison& picture : pictures) all.add(picture.pixel_sums);
  const size_t middle = pictures.size() / 2;
  const json first = to_json(pictures.front().pixels), mid = to_json(pictures[middle].pixels),
             whole = to_json(all.difference(kPixelPeak));
  return {{"num_frames", pictures.size()}, {"num_images", pictures.size()}, {"frame0_metrics", first},
          {"image0_metrics", first},       {"mid_frame_index", middle},     {"mid_image_index", middle},
          {"mid_frame_metrics", mid},      {"mid_image_metrics", mid},      {"all_frames_metrics", whole},
          {"all_images_metrics", whole}};
}

json steps_json(const std::vector<Difference>& steps) {
  json out = json::array();
  for (size_t i = 0; i < steps.size(); ++i)
    out.push_back({{"step", i + 1},
                   {"identical", steps[i].identical},
                   {"cosine_similarity", finite_or_null(steps[i].cosine_similarity)},
                   {"relative_l2", finite_or_null(steps[i].relative_l2)},
                   {"psnr_db", finite_or_null(steps[i].psnr_db)}});
  return out;
}

json picture_json(const ImageReport& report, size_t index) {
  const PictureComparison& picture = report.pictures[index];
  const DrawnPicture &reference = report.reference_run.pictures[index],
                     &candidate = report.candidate_run.pictures[index];
  return {
      {"prompt", picture.prompt},
      {"seed", picture.seed},
      {"metrics", to_json(picture.pixels)},
      {"ssim", picture.ssim},
      {"lpips", finite_or_null(picture.lpips)},
      {"latents", steps_json(picture.steps)},
      {"notes", reference.notes},
      {"steps_skipped", {{"reference", reference.steps_skipped}, {"candidate", candidate.steps_skipped}}}};
}

json summary_json(const std::vector<PictureComparison>& pictures) {
  json out = json::object();
  for (const PictureMetric& metric : picture_metrics()) {
    const MeanEstimate mean = mean_of(metric, pictures);
    json row = {{"mean", mean.count > 0 ? json(mean.mean) : json(nullptr)},
                {"count", mean.count},
                {"confidence_95", nullptr}};
    if (mean.interval) row["confidence_95"] = {mean.interval->low, mean.interval->high};
    out[metric.key] = row;
  }
  return out;
}

json limits_json(const ImageReport& report) {
  json out = json::array();
  for (const LimitResult& result : report.limits) {
    const PictureComparison& worst = report.pictures[result.worst];
    out.push_back({{"flag", result.limit.metric->flag},
                   {"metric", result.limit.metric->key},
                   {"limit", result.limit.limit},
                   {"passed", result.failed == 0},
                   {"failed_pictures", result.failed},
                   {"worst", finite_or_null(result.limit.metric->value(worst))},
                   {"worst_prompt", worst.prompt},
                   {"worst_seed", worst.seed}});
  }
  return out;
}

// What similar tools print as rules of thumb; --min-* and --max-* are what is enforced.
json guidance_json() {
  return {{"psnr_db", {{"acceptable", ">= 20"}, {"good", ">= 25"}, {"strict", ">= 30"}}},
          {"mae", {{"acceptable", "<= 12"}, {"good", "<= 6"}, {"strict", "<= 3"}}},
          {"cosine_similarity", {{"acceptable", ">= 0.98"}, {"good", ">= 0.995"}}},
          {"relative_l2", {{"acceptable", "<= 0.20"}, {"good", "<= 0.08"}}}};
}

json sampling_json(const ImageReport& report) {
  const diffusion::ImageSpec& spec = report.specs.front();
  return {{"task", "t2i"},
          {"width", spec.width},
          {"height", spec.height},
          {"num_frames", 1},
          {"num_inference_steps", spec.steps},
          {"guidance_scale", report.guidance_scale},
          {"cfg_scale", report.true_cfg_scale},
          {"guidance_scale_2", nullptr},
          {"flow_shift", nullptr},
          {"num_images_per_prompt", report.pictures_per_seed},
          {"step_execution", nullptr},
          {"max_sequence_length", spec.text_tokens}};
}

}  // namespace

json report_json(const ImageReport& report) {
  json pictures = json::array();
  for (size_t i = 0; i < report.pictures.size(); ++i) pictures.push_back(picture_json(report, i));
  json out = {{"model", report.reference.model},
              {"prompt", report.prompts.front()},
              {"prompts", report.prompts},
              {"negative_prompt", text_or_null(report.specs.front().negative_prompt)},
              {"seed", report.seeds.front()},
              {"seeds", report.seeds},
              {"warmup_runs", report.warmup_runs},
              {"measure_runs", report.reference_run.seconds.size()},
              {"variant_configs",
               {{"reference", settings_json("reference", report.reference)},
                {"candidate", settings_json("candidate", report.candidate)}}},
              {"sampling_kwargs", sampling_json(report)},
              {"metric_guidance", guidance_json()},
              {"reference_generation", generation_json(report.reference_run)},
              {"candidate_generation", generation_json(report.candidate_run)},
              {"output_metrics", output_metrics(report.pictures)},
              {"summary", summary_json(report.pictures)},
              {"limits", limits_json(report)},
              {"pictures", pictures}};
  if (!report.saved_outputs.is_null()) out["saved_outputs"] = report.saved_outputs;
  return out;
}

}  // namespace quaver::eval
