// quaver convert: from any model that loads to a plain folder, a GGUF or any format that is written.
#include "quantize/convert.h"

#include <cstdio>

#include "apps/commands.h"
#include "apps/model_argument.h"
#include "base/byte_text.h"
#include "base/error.h"
#include "base/remove_tree.h"
#include "quantize/export.h"
#include "quantize/gguf_export.h"
#include "quantize/job.h"
#include "quantize/output_folder.h"
#include "quantize/repack.h"

namespace quaver::apps {
namespace {

using namespace quantize;

struct ConvertFlags {
  std::string model, to = "bf16", scheme, method = "rtn";
  std::filesystem::path output_dir;
  bool overwrite = false;
};

void print_result(const ConvertFlags& flags, const std::string& what, int64_t bytes) {
  std::printf("%s: %s, %s\n", flags.output_dir.c_str(), what.c_str(), megabytes(bytes).c_str());
}

int64_t to_plain(const ConvertFlags& flags, const std::filesystem::path& target, const std::string& type) {
  std::unique_ptr<ProgressSink> progress = make_terminal_progress("converting");
  ConvertOptions options{
      .model = flags.model, .output_dir = target, .to = type, .overwrite = flags.overwrite};
  int64_t bytes = convert_to_plain(options, *progress);
  progress->finish(cat("wrote ", target.string()));
  return bytes;
}

int64_t to_same_values(const ConvertFlags& flags, const Format& format) {
  std::unique_ptr<ProgressSink> progress = make_terminal_progress("converting");
  RepackOptions options{.model = flags.model, .output_dir = flags.output_dir, .overwrite = flags.overwrite};
  int64_t bytes = repack(options, format, *progress);
  progress->finish(cat("wrote ", flags.output_dir.string()));
  return bytes;
}

// The plain weights of a quantized model, in a folder beside the result that goes away again.
class PlainModel {
 public:
  PlainModel(const ConvertFlags& flags, bool is_quantized) : path_(flags.model) {
    if (!is_quantized) return;
    std::filesystem::path normal = flags.output_dir.lexically_normal();
    if (!normal.has_filename()) normal = normal.parent_path();  // "out/"
    path_ = normal.string() + ".plain";
    to_plain({.model = flags.model}, path_, "bf16");
    made_ = path_;  // from here on it is ours to delete
  }
  ~PlainModel() {
    if (!made_.empty()) remove_tree(made_);
  }
  PlainModel(const PlainModel&) = delete;
  PlainModel& operator=(const PlainModel&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::filesystem::path made_;
};

int64_t to_new_values(const ConvertFlags& flags, bool is_quantized) {
  require_free_output(flags.output_dir, /*resume=*/false, flags.overwrite);
  PlainModel plain(flags, is_quantized);
  std::unique_ptr<ProgressSink> progress = make_terminal_progress("rounding");
  JobOptions job{.model = plain.path(),
                 .output_dir = flags.output_dir,
                 .format = flags.to,
                 .method = flags.method == "rtn" ? Method::kRtn : Method::kAutoRound,
                 .overwrite = flags.overwrite};
  job.rules.base = scheme_from_name(flags.scheme);
  // Rounding to nearest takes from calibration only the ranges of inputs, where the scheme fixes them.
  if (job.method == Method::kRtn) job.calibration.nsamples = 16, job.calibration.seqlen = 512;
  return run_job(job, {.progress = progress.get()}).bytes;
}

int to_gguf(const ConvertFlags& flags, std::string mix) {
  require(flags.method == "rtn", ErrorKind::kInvalidInput,
          "blocks of a GGUF are rounded; --method must be rtn, got '", flags.method, "'");
  require(mix.empty() || flags.scheme.empty(), ErrorKind::kInvalidInput, "--to ", flags.to,
          " names a type, and --scheme ", flags.scheme, " another");
  GgufExportOptions options{.model = flags.model,
                            .output = flags.output_dir,
                            .mix = mix.empty() ? flags.scheme : std::move(mix),
                            .overwrite = flags.overwrite};
  std::unique_ptr<ProgressSink> progress = make_terminal_progress("converting");
  const GgufExportReport report = export_gguf(options, *progress);
  progress->finish(cat("wrote ", flags.output_dir.string()));
  print_result(flags, "gguf, " + report.what, report.bytes);
  for (const std::string& note : report.notes) std::printf("%s\n", note.c_str());
  return 0;
}

int run_convert(ConvertFlags flags) {
  flags.model = resolve_model(flags.model);
  require(flags.method == "rtn" || flags.method == "autoround", ErrorKind::kInvalidInput,
          "--method must be rtn or autoround, got '", flags.method, "'");
  if (auto mix = gguf_mix_of(flags.to)) return to_gguf(flags, *std::move(mix));
  if (flags.to == "bf16" || flags.to == "fp32") {
    require(flags.scheme.empty(), ErrorKind::kInvalidInput,
            "--scheme goes with a format that is quantized, not with ", flags.to);
    print_result(flags, flags.to, to_plain(flags, flags.output_dir, flags.to));
    return 0;
  }
  const Format* format = find_format(flags.to);
  require(format && format->pack, ErrorKind::kInvalidInput, "--to must be bf16, fp32, gguf, ",
          writable_format_names(), "; got '", flags.to, "'");
  if (flags.scheme.empty()) {
    print_result(flags, cat(flags.to, ", the same values"), to_same_values(flags, *format));
    return 0;
  }
  const Format* source = detect_format(*models::open_model(flags.model));
  const bool is_quantized = source && !source->has_plain_values;
  int64_t bytes = to_new_values(flags, is_quantized);
  print_result(flags, cat(flags.to, ", rounded anew to ", flags.scheme, " by ", flags.method), bytes);
  return 0;
}

}  // namespace

std::function<int()> add_convert(CLI::App& app) {
  auto flags = std::make_shared<ConvertFlags>();
  add_model(app, flags->model);
  app.add_option("--to", flags->to,
                 cat("bf16, fp32, ", writable_format_names(), ", gguf, gguf:TYPE (", models::gguf_mix_names(),
                     "); a quantized model keeps its values, unless --scheme or TYPE asks for others"))
      ->capture_default_str();
  app.add_option("--output,--output_dir,--output-dir,-o", flags->output_dir,
                 "folder to write; of a GGUF, the file")
      ->required();
  app.add_option("--scheme", flags->scheme, cat("round the weights anew: ", preset_names()));
  add_flag(app, "method", flags->method, "how --scheme rounds: rtn or autoround");
  add_switch(app, "overwrite", flags->overwrite, "replace what is there");
  return [flags] { return run_convert(*flags); };
}

}  // namespace quaver::apps
