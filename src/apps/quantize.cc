// quaver quantize: the flags, spellings and defaults of the auto-round tool.
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <initializer_list>

#include "apps/commands.h"
#include "apps/model_argument.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/diffusers_folder.h"
#include "nn/device.h"
#include "quantize/export.h"
#include "quantize/gguf_export.h"
#include "quantize/job.h"
#include "quantize/output_folder.h"

namespace quaver::apps {
namespace {

using namespace quantize;

constexpr size_t kMaxConfigBytes = size_t{16} << 20;

struct QuantizeFlags {
  std::string model, scheme = "W4A16", layer_config, ignore_layers, device = "auto", kv_cache_dtype = "auto";
  std::optional<int> bits;
  std::optional<int64_t> group_size;
  double avg_bits = 0;
  std::string options;
  bool asym = false, disable_opt_rtn = false, disable_minmax = false, not_use_best = false, quiet = false;
  JobOptions job;
};

// "{name: {bits: 8}}" as JSON text, or a file that holds it.
std::vector<std::pair<std::string, json>> parse_layer_config(const std::string& text) {
  if (text.empty()) return {};
  bool is_file = text.find('{') == std::string::npos;
  std::string document = is_file ? read_text_file(text, kMaxConfigBytes) : text;
  parse_json(document, is_file ? text : "--layer_config");  // the strict check; the order is kept below
  auto value = nlohmann::ordered_json::parse(document);
  require(value.is_object(), ErrorKind::kInvalidInput, "--layer_config must be a JSON object, got ",
          document.substr(0, 60));
  std::vector<std::pair<std::string, json>> rules;
  for (const auto& [key, rule] : value.items()) rules.emplace_back(key, json(rule));
  return rules;
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find(',', at), text.size());
    std::string part = text.substr(at, end - at);
    part.erase(0, part.find_first_not_of(' '));
    part.erase(part.find_last_not_of(' ') + 1);
    if (!part.empty()) parts.push_back(part);
    at = end + 1;
  }
  return parts;
}

Scheme with_flags(Scheme scheme, const QuantizeFlags& flags) {
  if (flags.group_size) scheme.group_size = *flags.group_size;
  if (flags.asym) scheme.sym = false;
  return scheme;
}

bool asks_for_fp8_cache(const std::string& dtype) {
  require(dtype == "auto" || dtype == "fp8" || dtype == "fp8_e4m3", ErrorKind::kInvalidInput,
          "--kv_cache_dtype must be auto or fp8, got '", dtype, "'");
  return dtype != "auto";
}

JobOptions job_of(const QuantizeFlags& flags) {
  JobOptions job = flags.job;
  job.model = resolve_model(flags.model);
  job.rules.base = with_flags(scheme_from_name(flags.scheme), flags);
  if (flags.bits) job.rules.base.bits = *flags.bits;
  for (const std::string& name : split_at_commas(flags.options)) {
    job.scheme_options.push_back(with_flags(scheme_from_name(name), flags));
    validate_scheme(job.scheme_options.back(), "--options");
  }
  require(flags.avg_bits >= 0, ErrorKind::kInvalidInput, "--avg_bits must be positive, got ", flags.avg_bits);
  require(flags.options.empty() || flags.avg_bits > 0, ErrorKind::kInvalidInput,
          "--options names schemes to mix, for which --avg_bits gives the mean");
  require(!flags.bits || flags.avg_bits == 0, ErrorKind::kInvalidInput,
          "--bits says the bits of all layers and --avg_bits their mean; give one of them");
  job.mean_bits = flags.avg_bits;
  job.rules.layer_config = parse_layer_config(flags.layer_config);
  job.rules.ignore_layers = split_at_commas(flags.ignore_layers);
  require(job.tune.iters >= 0, ErrorKind::kInvalidInput, "--iters must not be negative, got ",
          job.tune.iters);
  require(job.tune.batch_size >= 1, ErrorKind::kInvalidInput, "--batch_size must be at least 1, got ",
          job.tune.batch_size);
  require(job.tune.gradient_accumulate_steps >= 1, ErrorKind::kInvalidInput,
          "--gradient_accumulate_steps must be at least 1, got ", job.tune.gradient_accumulate_steps);
  job.method = job.tune.iters > 0      ? Method::kAutoRound
               : flags.disable_opt_rtn ? Method::kRtn
                                       : Method::kOptRtn;
  job.tune.tune_minmax = !flags.disable_minmax;
  job.tune.use_best = !flags.not_use_best;
  job.tune.seed = job.calibration.seed;
  job.fp8_kv_cache = asks_for_fp8_cache(flags.kv_cache_dtype);
  job.device = nn::parse_device(flags.device);
  job.trajectory.dataset = job.calibration.dataset;
  job.trajectory.seed = job.calibration.seed;
  return job;
}

void print_plan(const std::vector<LayerDecision>& decisions, bool with_head) {
  size_t quantized = 0;
  std::printf("layers:\n");
  for (const LayerDecision& decision : decisions) {
    quantized += decision.scheme.bits != 16;
    if (!decision.reason.empty())
      std::printf("  %-56s %-18s %s\n", decision.name.c_str(), to_string(decision.scheme).c_str(),
                  decision.reason.c_str());
  }
  std::printf("  %zu of %zu linear layers%s are quantized; all else stays as it is\n", quantized,
              decisions.size(), with_head ? "" : " of the blocks");
  std::fflush(stdout);
}

// Tuning frees and takes the same megabytes at every operation; giving them back to the system each time
// costs about 8% of the run in page faults.
void keep_freed_memory() {
  constexpr int kBytes = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kBytes);
  mallopt(M_TRIM_THRESHOLD, kBytes);
  mallopt(M_MXFAST, 0);  // fast bins are swept at each large allocation
}

// Blocks of a GGUF are rounded as its type says, so most flags would be without effect.
void refuse_other_flags(const CLI::App& app, const std::string& format) {
  constexpr std::array<std::string_view, 7> kTaken = {"MODEL",   "--model",     "--format",    "--iters",
                                                      "--quiet", "--overwrite", "--output_dir"};
  for (const CLI::Option* option : app.get_options())
    require(option->count() == 0 || std::ranges::find(kTaken, option->get_name()) != kTaken.end(),
            ErrorKind::kInvalidInput, option->get_name(), " has no effect with --format ", format);
}

int quantize_to_gguf(const QuantizeFlags& flags, const std::string& mix, const CLI::App& app) {
  require(!mix.empty(), ErrorKind::kInvalidInput,
          "--format gguf needs a type, gguf:q4_k_m for one: ", models::gguf_mix_names());
  require(flags.job.tune.iters == 0, ErrorKind::kInvalidInput, "--format ", flags.job.format,
          " rounds without tuning; give --iters 0");
  refuse_other_flags(app, flags.job.format);
  const std::string model = resolve_model(flags.model);
  std::filesystem::path name = std::filesystem::absolute(flags.model).lexically_normal();
  if (!name.has_filename()) name = name.parent_path();
  const models::GgufMix* row = models::find_gguf_mix(mix);
  require(row != nullptr, ErrorKind::kInvalidInput, "--format gguf:", mix,
          " is not known; a GGUF can be one of ", models::gguf_mix_names());
  GgufExportOptions options{
      .model = model,
      .output =
          flags.job.output_dir / cat((name.extension() == ".gguf" ? name.stem() : name.filename()).string(),
                                     "-", row->name, ".gguf"),
      .mix = mix,
      .overwrite = flags.job.overwrite};
  const MadeFolders folders(flags.job.output_dir);
  std::unique_ptr<ProgressSink> bar = make_terminal_progress("quantizing");
  const GgufExportReport report = export_gguf(options, flags.quiet ? null_progress() : *bar);
  if (!flags.quiet) bar->finish(cat("wrote ", options.output.string()));
  std::printf("%s: %s, %.1f MB\n", options.output.c_str(), report.what.c_str(),
              static_cast<double>(report.bytes) / 1e6);
  for (const std::string& note : report.notes) std::printf("%s\n", note.c_str());
  std::printf("serve it: quaver serve %s\n", options.output.c_str());
  return 0;
}

// Flags that one kind of model takes would be without effect on the other.
void refuse_flags(const CLI::App& app, std::initializer_list<const char*> names, const std::string& model,
                  const char* kind) {
  for (const char* name : names)
    require(app.get_option(name)->count() == 0, ErrorKind::kInvalidInput, name, " has no effect: ", model,
            " ", kind);
}

void fit_to_model(const CLI::App& app, JobOptions& job) {
  if (!DiffusersFolder::is(job.model))
    return refuse_flags(app,
                        {"--quantize_text_encoder", "--calib_samples", "--num_inference_steps",
                         "--guidance_scale", "--width", "--height", "--max_sequence_length"},
                        job.model, "makes text");
  refuse_flags(app, {"--seqlen", "--allow_small_dataset"}, job.model, "makes pictures");
  if (app.get_option("--nsamples")->count() > 0) job.trajectory.prompts = job.calibration.nsamples;
}

int run_quantize(const QuantizeFlags& flags, const CLI::App& app) {
  if (auto mix = gguf_mix_of(flags.job.format)) return quantize_to_gguf(flags, *mix, app);
  keep_freed_memory();
  JobOptions job = job_of(flags);
  fit_to_model(app, job);
  std::unique_ptr<ProgressSink> bar = make_terminal_progress("quantizing");
  JobListener listener{.on_plan =
                           [&job](const std::vector<LayerDecision>& decisions) {
                             print_plan(decisions, job.rules.quant_head);
                           },
                       .on_calibration =
                           [](const std::string& what) {
                             std::printf("calibration: %s\n", what.c_str());
                             std::fflush(stdout);
                           },
                       .on_block = {},
                       .progress = flags.quiet ? &null_progress() : bar.get()};
  RunReport report = run_job(job, listener);
  std::printf("%s: %s, %s, %.1f MB -> %.1f MB in %.0f s, peak memory %.0f MiB\n", job.output_dir.c_str(),
              report.scheme.c_str(), report.format.c_str(), static_cast<double>(report.source_bytes) / 1e6,
              static_cast<double>(report.bytes) / 1e6, report.seconds,
              static_cast<double>(report.peak_memory_bytes) / (1024.0 * 1024.0));
  std::printf("report: %s/report.html\nserve it: quaver serve %s\n", job.output_dir.c_str(),
              job.output_dir.c_str());
  return 0;
}

void add_scheme_flags(CLI::App& app, QuantizeFlags& flags) {
  add_flag(app, "scheme", flags.scheme, cat("one of ", preset_names()));
  app.add_option("--bits", flags.bits, "bits per weight instead of the scheme's: 2, 3, 4 or 8");
  app.add_option("--group_size,--group-size", flags.group_size,
                 "weights that share a scale instead of the scheme's; -1 = a whole row");
  add_switch(app, "asym", flags.asym, "asymmetric: a zero point for each group");
  add_flag(app, "format", flags.job.format,
           cat(writable_format_names(), ", gguf:TYPE with --iters 0 (", models::gguf_mix_names(), ")"));
  add_flag(app, "layer_config", flags.layer_config,
           "JSON or a file: layer name, part of one or regular expression -> a scheme's name or {\"bits\", "
           "\"group_size\", \"sym\"}");
  app.add_option("--ignore_layers,--ignore-layers,--fp_layers,--fp-layers", flags.ignore_layers,
                 "layers to keep at 16 bits, separated by commas");
  app.add_option(
      "--avg_bits,--avg-bits,--target_bits,--target-bits", flags.avg_bits,
      "a scheme of --options for each layer, so that bits per weight, scales included, have at most "
      "this mean");
  add_flag(app, "options", flags.options,
           "with --avg_bits: schemes to mix, \"W2A16,W4A16\"; default: the widths of --scheme's family");
  add_switch(
      app, "quantize_text_encoder", flags.job.text_encoders,
      "picture models: what reads the prompts too, layers named text_encoder. ..., text_encoder_2. ...");
  add_switch(app, "quant_lm_head", flags.job.rules.quant_head,
             "quantize the head too, where it is not tied to the embedding");
  app.add_option("--kv_cache_dtype,--kv-cache-dtype,--static_kv_dtype,--static-kv-dtype",
                 flags.kv_cache_dtype, "fp8: scales for keys and values by calibration; auto: none")
      ->capture_default_str();
  add_switch(app, "align_fused", flags.job.rules.align_fused,
             "one scheme for layers that engines fuse: the one with the most bits");
}

void add_tuning_flags(CLI::App& app, QuantizeFlags& flags) {
  add_flag(app, "iters", flags.job.tune.iters, "tuning steps per block; 0 rounds without tuning");
  add_flag(app, "lr", flags.job.tune.lr, "learning rate; 0 = 1 / iters");
  add_flag(app, "minmax_lr", flags.job.tune.minmax_lr, "learning rate of the ranges; 0 = lr");
  app.add_option("--batch_size,--batch-size,--bs", flags.job.tune.batch_size, "rows per step")
      ->capture_default_str();
  add_flag(app, "gradient_accumulate_steps", flags.job.tune.gradient_accumulate_steps, "batches per step");
  add_switch(app, "disable_minmax_tuning", flags.disable_minmax, "tune rounding only, not the ranges");
  add_switch(app, "disable_opt_rtn", flags.disable_opt_rtn,
             "with --iters 0: plain rounding, without the scale search");
  add_switch(app, "not_use_best_mse", flags.not_use_best,
             "keep the last step's parameters, not the best ones");
}

void add_calibration_flags(CLI::App& app, QuantizeFlags& flags) {
  add_flag(app, "dataset", flags.job.calibration.dataset,
           "text to tune on: .txt, .json, .jsonl or a folder of them; of picture models captions, also .tsv; "
           "default: the built-in ones");
  add_flag(app, "nsamples", flags.job.calibration.nsamples,
           "rows of text; of picture models captions at most, default 32");
  add_flag(app, "seqlen", flags.job.calibration.seqlen, "tokens per row");
  add_flag(app, "calib_samples", flags.job.trajectory.samples,
           "picture models: inputs of the first block to tune on, over all captions and steps");
  add_flag(app, "num_inference_steps", flags.job.trajectory.steps,
           "picture models: steps of the calibration's pictures; 0 = the model's own number");
  app.add_option("--guidance_scale,--guidance-scale", flags.job.trajectory.guidance_scale,
                 "picture models: of the calibration's pictures; default: the model's own");
  add_flag(app, "width", flags.job.trajectory.width,
           "picture models: of the calibration's pictures; 0 = the model's own");
  add_flag(app, "height", flags.job.trajectory.height, "as --width");
  add_flag(app, "max_sequence_length", flags.job.trajectory.text_tokens,
           "picture models: tokens that the longer text encoder gives; 0 = the model's own");
  add_flag(app, "seed", flags.job.calibration.seed, "of every random choice");
  add_switch(app, "allow_small_dataset", flags.job.calibration.allow_small,
             "go on with less than an eighth of the rows asked for");
}

}  // namespace

std::function<int()> add_quantize(CLI::App& app) {
  auto flags = std::make_shared<QuantizeFlags>();
  flags->job.output_dir = "./tmp_autoround";
  add_model(app, flags->model);
  app.add_option("--output_dir,--output-dir", flags->job.output_dir, "folder to write")
      ->capture_default_str();
  add_scheme_flags(app, *flags);
  add_tuning_flags(app, *flags);
  add_calibration_flags(app, *flags);
  app.add_option("--device,--device_map,--device-map", flags->device, "auto, cpu, cuda or cuda:N")
      ->capture_default_str();
  add_switch(app, "resume", flags->job.resume, "continue an interrupted run at its last finished block");
  add_switch(app, "overwrite", flags->job.overwrite, "replace an existing output folder");
  add_switch(app, "quiet", flags->quiet, "no progress bar");
  return [flags, &app] { return run_quantize(*flags, app); };
}

}  // namespace quaver::apps
