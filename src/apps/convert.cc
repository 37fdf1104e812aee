// quaver convert: a plain bf16 or fp32 folder from any model that loads.
#include "quantize/convert.h"

#include <cstdio>

#include "apps/commands.h"
#include "apps/model_argument.h"

namespace quaver::apps {

std::function<int()> add_convert(CLI::App& app) {
  auto options = std::make_shared<quantize::ConvertOptions>();
  add_model(app, options->model);
  app.add_option("--to", options->to, "bf16 or fp32")->capture_default_str();
  app.add_option("--output,--output_dir,--output-dir,-o", options->output_dir, "folder to write")->required();
  add_switch(app, "overwrite", options->overwrite, "replace an existing output folder");
  return [options] {
    options->model = resolve_model(options->model);
    std::unique_ptr<ProgressSink> progress = make_terminal_progress("converting");
    int64_t bytes = quantize::convert_to_plain(*options, *progress);
    progress->finish(cat("wrote ", options->output_dir.string()));
    std::printf("%s: %.1f MB\n", options->output_dir.c_str(), static_cast<double>(bytes) / 1e6);
    return 0;
  };
}

}  // namespace quaver::apps
