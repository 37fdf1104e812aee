// quaver compare: how far one picture model's results are from another's, from the same prompts and noise.
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "apps/commands.h"
#include "apps/interrupt.h"
#include "apps/lora_flags.h"
#include "apps/model_argument.h"
#include "apps/picture_files.h"
#include "apps/picture_flags.h"
#include "apps/ranks.h"
#include "apps/text_flags.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "checkpoint/diffusers_folder.h"
#include "eval/image_report.h"
#include "eval/lpips.h"
#include "eval/trajectory_metrics.h"
#include "pipeline/image_check.h"
#include "pipeline/memory_budget.h"
#include "pipeline/open_image_pipeline.h"

namespace quaver::apps {
namespace {

constexpr double kDifferenceGain = 8;

struct VariantFlags {
  std::string model, quantization, cache = "none", dtype = "auto", load_format = "default";
  std::vector<std::string> loras;
};

struct CompareFlags {
  std::string task = "t2i", model, device = "cpu", prompts_file, output_json, output_html, save_output_dir,
              lpips_weights;
  VariantFlags reference, candidate;
  PictureFlags pictures;
  PictureModelFlags vae;
  RankFlags ranks;
  std::vector<std::string> prompts;
  std::vector<int64_t> seeds;
  int64_t warmup_runs = 0, measure_runs = 1;
  bool strict_activations = true, quiet = false;
  std::vector<std::optional<double>> limits;  // as eval::picture_metrics
};

// --- what is to be drawn

std::vector<std::string> all_prompts(const CompareFlags& flags) {
  constexpr size_t kMaxBytes = size_t{16} << 20;
  std::vector<std::string> prompts = flags.prompts;
  if (!flags.prompts_file.empty()) {
    const std::string text = read_text_file(flags.prompts_file, kMaxBytes);
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      std::string line = text.substr(at, end - at);
      if (line.ends_with('\r')) line.pop_back();
      if (line.find_first_not_of(" \t") != std::string::npos) prompts.push_back(line);
      at = end + 1;
    }
  }
  require(!prompts.empty(), ErrorKind::kInvalidInput,
          "nothing to draw: give --prompt, once or more, or --prompts-file with a prompt a line");
  return prompts;
}

std::vector<uint64_t> all_seeds(const std::vector<int64_t>& given) {
  constexpr uint64_t kDefaultSeed = 42;
  std::vector<uint64_t> seeds;
  for (const int64_t seed : given) {
    require(seed >= 0, ErrorKind::kInvalidInput, "--seed is ", seed, ", expected 0 or more");
    seeds.push_back(static_cast<uint64_t>(seed));
  }
  return seeds.empty() ? std::vector{kDefaultSeed} : seeds;
}

std::vector<diffusion::ImageSpec> specs_for(const diffusion::ImagePipeline& model,
                                            pipeline::ImageRequest request, const eval::ImageReport& report) {
  std::vector<diffusion::ImageSpec> out;
  for (const std::string& prompt : report.prompts)
    for (const uint64_t seed : report.seeds) {
      request.prompt = prompt;
      request.seed = seed;
      for (diffusion::ImageSpec& spec : check_image_request(request, model, kCommandLineLimits))
        out.push_back(std::move(spec));
    }
  return out;
}

// What the reference model's defaults decided holds for the candidate too.
void settle(pipeline::ImageRequest& request, const diffusion::ImageSpec& spec,
            const diffusion::ImageFacts& facts) {
  request.width = spec.width;
  request.height = spec.height;
  request.steps = spec.steps;
  request.text_tokens = spec.text_tokens;
  if (!request.guidance_scale) request.guidance_scale = facts.defaults.guidance_scale;
}

// --- the two runs

pipeline::ImagePipelineOptions options_of(const CompareFlags& flags, const VariantFlags& variant,
                                          Ranks& ranks) {
  const std::string folder = resolve_model(variant.model);
  require(DiffusersFolder::is(folder), ErrorKind::kInvalidInput, folder,
          ": --task t2i compares models of pictures, and this is none: it has no model_index.json");
  return {.model = folder,
          .device = ranks.device(),
          .dtype = variant.dtype,
          .strict_activations = flags.strict_activations,
          .quantization = variant.quantization,
          .rounding = quantize::online_rounding,
          .cache = variant.cache,
          .vae_tiling = flags.vae.vae_tiling,
          .adapters = adapters_of({.files = variant.loras}),
          .ranks = ranks.world()};
}

struct LatentShape {
  int64_t unit = 0, channels = 0;
  bool operator==(const LatentShape&) const = default;
};

LatentShape latent_shape(const diffusion::ImagePipeline& model) {
  return {model.facts().unit, model.transformer().info().channels};
}

void require_same_noise(const LatentShape& a, const LatentShape& b) {
  require(a == b, ErrorKind::kInvalidInput, "the models can't start from the same noise: a token has ",
          a.channels, " numbers for ", a.unit, "x", a.unit, " pixels in the reference and ", b.channels,
          " for ", b.unit, "x", b.unit, " in the candidate");
}

// The reference's latents wait in the host's memory for the candidate's.
void require_room(const std::vector<diffusion::ImageSpec>& specs, const LatentShape& shape, int64_t steps) {
  const diffusion::ImageSpec& spec = specs.front();
  const int64_t tokens = spec.width / shape.unit * (spec.height / shape.unit);
  const int64_t bytes = static_cast<int64_t>(specs.size()) * steps * tokens * shape.channels * 4;
  const int64_t available = pipeline::available_host_memory();
  require(bytes <= available / 2, ErrorKind::kOutOfMemory, "the latents of ", specs.size(), " pictures and ",
          steps, " steps take ", bytes >> 20, " MiB, and ", available >> 20,
          " MiB are free, of which they may take half; compare fewer pictures at once");
}

class CompareRun {
 public:
  CompareRun(const CompareFlags& flags, Ranks& ranks)
      : flags_(flags), ranks_(ranks), request_(request_of(flags.pictures)) {
    report_.prompts = all_prompts(flags);
    report_.seeds = all_seeds(flags.seeds);
    report_.pictures_per_seed = request_.count;
    report_.warmup_runs = flags.warmup_runs;
    report_.reference = settings_of(flags.reference);
    report_.candidate = settings_of(flags.candidate);
    const auto cached = eval::cached_lpips_weights();
    if (!flags.lpips_weights.empty())
      lpips_.emplace(flags.lpips_weights);
    else if (cached)
      lpips_.emplace(*cached);
  }

  // Nothing after Ctrl-C.
  std::optional<eval::ImageReport> run() {
    auto reference = run_reference();
    if (!reference) return std::nullopt;
    report_.reference_run = std::move(*reference);
    malloc_trim(0);  // the reference's memory is the candidate's
    auto candidate = run_candidate();
    if (!candidate) return std::nullopt;
    report_.candidate_run = std::move(*candidate);
    report_.pictures =
        compare_pictures(report_.specs, report_.reference_run, report_.candidate_run, pairs_->differences());
    if (lpips_) measure_lpips();
    return std::move(report_);
  }

 private:
  static eval::VariantSettings settings_of(const VariantFlags& flags) {
    return {.model = flags.model,
            .quantization = flags.quantization,
            .cache = flags.cache,
            .dtype = flags.dtype,
            .loras = flags.loras};
  }

  std::optional<eval::ImageRun> run_reference() {
    const auto model = pipeline::load_image_model(options_of(flags_, flags_.reference, ranks_));
    report_.specs = specs_for(*model, request_, report_);
    const diffusion::ImageSpec& first = report_.specs.front();
    for (const std::string& note : idle_fields(request_, model->facts(), first.guidance)) log_warning(note);
    settle(request_, first, model->facts());
    report_.guidance_scale = *request_.guidance_scale;
    report_.true_cfg_scale = request_.true_cfg_scale.value_or(1);
    fit_lpips(first);
    shape_ = latent_shape(*model);
    require_room(report_.specs, shape_, model->schedule(first).steps());
    pairs_.emplace(report_.specs.size());
    return draw("reference", *model, report_.specs,
                [&](size_t picture, const at::Tensor& latents) { pairs_->keep(picture, latents); });
  }

  std::optional<eval::ImageRun> run_candidate() {
    const auto model = pipeline::load_image_model(options_of(flags_, flags_.candidate, ranks_));
    require_same_noise(shape_, latent_shape(*model));
    return draw("candidate", *model, specs_for(*model, request_, report_),
                [&](size_t picture, const at::Tensor& latents) { pairs_->compare(picture, latents); });
  }

  std::optional<eval::ImageRun> draw(const char* label, const diffusion::ImagePipeline& model,
                                     const std::vector<diffusion::ImageSpec>& specs,
                                     const eval::LatentSink& on_step) {
    const std::unique_ptr<ProgressSink> bar = flags_.quiet ? nullptr : make_terminal_progress(label);
    const InterruptWatch watch;
    auto run = eval::run_images(model, specs,
                                {.warmup_runs = flags_.warmup_runs,
                                 .measure_runs = flags_.measure_runs,
                                 .stop = [&] { return watch.interrupted(); }},
                                on_step, bar ? *bar : null_progress());
    if (bar) bar->finish(run ? cat(specs.size(), specs.size() == 1 ? " picture" : " pictures") : "stopped");
    return run;
  }

  // Weights that nobody named for this run are no reason to refuse it.
  void fit_lpips(const diffusion::ImageSpec& spec) {
    const int64_t side = std::min(spec.width, spec.height), least = eval::Lpips::kLeastSide;
    if (!lpips_ || side >= least) return;
    require(flags_.lpips_weights.empty(), ErrorKind::kInvalidInput, "LPIPS needs pictures of at least ",
            least, "x", least, ", got ", spec.width, "x", spec.height,
            "; draw larger ones or leave --lpips-weights out");
    log_warning("LPIPS is not measured: it needs pictures of at least ", least, "x", least);
    lpips_.reset();
  }

  void measure_lpips() {
    for (size_t i = 0; i < report_.pictures.size(); ++i)
      report_.pictures[i].lpips =
          lpips_->distance(report_.reference_run.pictures[i].image, report_.candidate_run.pictures[i].image);
  }

  const CompareFlags& flags_;
  Ranks& ranks_;
  pipeline::ImageRequest request_;
  std::optional<eval::Lpips> lpips_;
  LatentShape shape_;
  std::optional<eval::TrajectoryPairs> pairs_;
  eval::ImageReport report_;
};

// --- what comes of them

json save_pictures(const std::filesystem::path& folder, const char* label, const eval::ImageRun& run) {
  const PictureFiles files(folder / cat(label, ".png"), static_cast<int64_t>(run.pictures.size()));
  json paths = json::array();
  for (size_t i = 0; i < run.pictures.size(); ++i) {
    files.write(static_cast<int64_t>(i), run.pictures[i].image, {});
    paths.push_back(files.path(static_cast<int64_t>(i)).string());
  }
  return paths;
}

void print_means(const eval::ImageReport& report) {
  std::printf("%zu %s of %ldx%ld, %ld steps\n", report.pictures.size(),
              report.pictures.size() == 1 ? "pair" : "pairs", report.specs.front().width,
              report.specs.front().height, report.specs.front().steps);
  for (const eval::PictureMetric& metric : eval::picture_metrics()) {
    const eval::MeanEstimate mean = mean_of(metric, report.pictures);
    if (mean.count == 0)
      std::printf("%-38s -\n", metric.text);
    else if (!mean.interval)
      std::printf("%-38s %.5g\n", metric.text, mean.mean);
    else
      std::printf("%-38s %.5g  (95%%: %.5g to %.5g)\n", metric.text, mean.mean, mean.interval->low,
                  mean.interval->high);
  }
  size_t identical = 0;
  for (const eval::PictureComparison& picture : report.pictures) identical += picture.pixels.identical;
  if (identical > 0) std::printf("%zu identical, which have no PSNR\n", identical);
}

// The exit status: 1 where a limit is missed.
int tell(const eval::ImageReport& report) {
  print_means(report);
  std::fflush(stdout);
  int status = 0;
  for (const eval::LimitResult& result : report.limits) {
    if (result.failed == 0) continue;
    status = 1;
    std::fprintf(stderr, "quaver: %s\n", sentence_of(result, report.pictures).c_str());
  }
  return status;
}

std::vector<eval::PictureLimit> limits_of(const CompareFlags& flags) {
  std::vector<eval::PictureLimit> out;
  for (size_t i = 0; i < flags.limits.size(); ++i)
    if (flags.limits[i]) out.push_back({&eval::picture_metrics()[i], *flags.limits[i]});
  return out;
}

void check_folder(const char* flag, const std::string& file) {
  if (file.empty()) return;
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  require(std::filesystem::is_directory(folder), ErrorKind::kNotFound, flag, " ", file, ": ", folder.string(),
          " is no folder");
}

void check_compare_flags(CompareFlags& flags) {
  for (VariantFlags* variant : {&flags.reference, &flags.candidate})
    if (variant->model.empty()) variant->model = flags.model;
  require(!flags.reference.model.empty() && !flags.candidate.model.empty(), ErrorKind::kInvalidInput,
          "give --reference-model and --candidate-model, or --model for both");
  require(flags.warmup_runs >= 0, ErrorKind::kInvalidInput, "--warmup-runs is ", flags.warmup_runs,
          ", expected 0 or more");
  require(flags.measure_runs >= 1, ErrorKind::kInvalidInput, "--measure-runs is ", flags.measure_runs,
          ", expected 1 or more");
  for (size_t i = 0; i < flags.limits.size(); ++i)
    require(!flags.limits[i] || std::string_view(eval::picture_metrics()[i].key) != "lpips" ||
                !flags.lpips_weights.empty() || eval::cached_lpips_weights(),
            ErrorKind::kInvalidInput, "--max-lpips needs weights: give --lpips-weights");
  check_folder("--output-json", flags.output_json);
  check_folder("--output-html", flags.output_html);
  tell_of_vae_flags(flags.vae);
}

int run_compare(CompareFlags flags) {
  check_compare_flags(flags);
  Ranks ranks(flags.ranks, flags.device);
  if (!ranks.leads()) {
    for (const VariantFlags* variant : {&flags.reference, &flags.candidate})
      follow(options_of(flags, *variant, ranks));
    return 0;
  }
  std::optional<eval::ImageReport> report = CompareRun(flags, ranks).run();
  if (!report) return kInterrupted;
  report->limits = check_limits(limits_of(flags), report->pictures);
  if (!flags.save_output_dir.empty()) {
    std::filesystem::create_directories(flags.save_output_dir);
    report->saved_outputs = {
        {"reference", save_pictures(flags.save_output_dir, "reference", report->reference_run)},
        {"candidate", save_pictures(flags.save_output_dir, "candidate", report->candidate_run)}};
  }
  if (!flags.output_json.empty())
    write_file_atomically(flags.output_json, report_json(*report).dump(1) + "\n");
  if (!flags.output_html.empty())
    write_file_atomically(flags.output_html, report_html(*report, kDifferenceGain));
  return tell(*report);
}

// --- flags

void add_variant_flags(CLI::App& app, const std::string& side, VariantFlags& variant) {
  add_flag(app, side + "-model", variant.model, "default: --model");
  add_quantization(app, variant.quantization, both_spellings(side + "-quantization"));
  add_cache_flag(app, side + "-cache", variant.cache);
  add_lora_flag(app, side + "-lora", variant.loras);
  add_flag(app, side + "-dtype", variant.dtype, "of activations: auto, float32, bfloat16 or float16");
  app.add_option(both_spellings(side + "-load-format"), variant.load_format, "accepted for compatibility")
      ->check(CLI::IsMember({"default"}));
}

// What the program of these flags can ask of several devices or of videos; here each is 1.
void add_flags_of_one(CLI::App& app) {
  for (const char* name : {"num-frames", "ring-degree", "vae-patch-parallel-size"})
    app.add_option_function<int>(
           both_spellings(name), [](int) {}, "1; accepted for compatibility")
        ->check(CLI::IsMember({1}));
}

void add_limits(CLI::App& app, std::vector<std::optional<double>>& limits) {
  limits.resize(eval::picture_metrics().size());
  for (size_t i = 0; i < limits.size(); ++i) {
    const eval::PictureMetric& metric = eval::picture_metrics()[i];
    app.add_option(both_spellings(metric.flag), limits[i],
                   cat("every pair must have at ", metric.is_lower_limit() ? "least" : "most", " this (",
                       metric.text, "), else the exit status is 1"))
        ->type_name("NUMBER");
  }
}

}  // namespace

std::function<int()> add_compare(CLI::App& app) {
  auto flags = std::make_shared<CompareFlags>();
  app.add_option("--task", flags->task, "what both make: t2i, pictures from text")
      ->check(CLI::IsMember({"t2i"}))
      ->capture_default_str();
  add_flag(app, "model", flags->model, "of both sides, where a side names none");
  add_variant_flags(app, "reference", flags->reference);
  add_variant_flags(app, "candidate", flags->candidate);
  add_flag(app, "device", flags->device, "auto, cpu, cuda or cuda:N");
  app.add_option("--prompt", flags->prompts, "what a picture shows; may be given several times")
      ->allow_extra_args(false)
      ->take_all();
  add_flag(app, "prompts-file", flags->prompts_file, "a prompt a line");
  app.add_option("--seed", flags->seeds, "of each prompt's pictures; may be given several times; default 42")
      ->allow_extra_args(false)
      ->take_all();
  add_request_flags(app, flags->pictures);
  add_vae_flags(app, flags->vae);
  add_strict_activations(app, flags->strict_activations);
  add_flag(app, "warmup-runs", flags->warmup_runs, "passes over all pictures before those that are timed");
  add_flag(app, "measure-runs", flags->measure_runs, "timed passes over all pictures");
  add_flag(app, "lpips-weights", flags->lpips_weights,
           "AlexNet and the heads of LPIPS, a file or a folder (.safetensors, .pth), to measure it; default: "
           "quaver/lpips in the user's cache, where that is there");
  add_limits(app, flags->limits);
  add_flag(app, "output-json", flags->output_json, "write the figures to this file");
  add_flag(app, "output-html", flags->output_html, "write a page with the pictures to this file");
  add_flag(app, "save-output-dir", flags->save_output_dir, "write both sides' pictures to this folder");
  add_switch(app, "quiet", flags->quiet, "no progress");
  add_rank_flags(app, flags->ranks);
  add_flags_of_one(app);
  return [flags] { return run_compare(*flags); };
}

}  // namespace quaver::apps
