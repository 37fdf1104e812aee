#include "quantize/job.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <utility>

#include "base/cpu_features.h"
#include "base/error.h"
#include "base/remove_tree.h"
#include "formats/format.h"
#include "quantize/block_model.h"
#include "quantize/export.h"
#include "quantize/job_plan.h"
#include "quantize/model_job.h"
#include "quantize/output_folder.h"

namespace quaver::quantize {
namespace {

using JobClock = std::chrono::steady_clock;

int64_t peak_memory_bytes() {
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

const Format& writable_format(const std::string& name) {
  const Format* format = find_format(name);
  require(format != nullptr && format->pack != nullptr, ErrorKind::kInvalidInput, "format '", name,
          "' can't be written; writable are ", writable_format_names());
  return *format;
}

void refuse_source_as_target(const JobOptions& options) {
  namespace fs = std::filesystem;
  require(!fs::exists(options.output_dir) || !fs::equivalent(options.output_dir, options.model),
          ErrorKind::kInvalidInput, "--output_dir ", options.output_dir.string(),
          " is the model's own folder");
}

// A model, or several of one pipeline.
class Job {
 public:
  Job(const JobOptions& options, const JobListener& listener)
      : options_(options), listener_(listener), format_(writable_format(options.format)) {
    std::vector<std::unique_ptr<BlockModel>> models = open_block_models({.path = options.model,
                                                                         .load = job_load_options(options),
                                                                         .text = options.calibration,
                                                                         .trajectory = options.trajectory},
                                                                        options.text_encoders);
    for (const auto& model : models)
      require(!model->is_quantized(), ErrorKind::kInvalidInput, model->source().path().string(),
              " is quantized already; quantize the original model");
    refuse_source_as_target(options_);
    require_free_output(options_.output_dir, options_.resume, options_.overwrite);
    std::vector<std::vector<LayerDecision>> decided = decide_models(options_, models);
    for (size_t i = 0; i < models.size(); ++i)
      parts_.push_back(
          plan_model_job(options_, listener_, format_, std::move(models[i]), std::move(decided[i])));
  }

  RunReport run() {
    const auto start = JobClock::now();
    if (listener_.on_plan) listener_.on_plan(all_decisions());
    // What can't be calibrated leaves no folder behind.
    if (!options_.resume) parts_.front()->calibrate(report_);
    OutputFolder folder(options_.output_dir, fingerprint(), options_.resume, options_.overwrite);
    run_parts(folder.staging());
    write_result(folder.result());
    report_.seconds = std::chrono::duration<double>(JobClock::now() - start).count();
    report_.peak_memory_bytes = peak_memory_bytes();
    write_reports(report_, folder.result());
    folder.publish();
    listener_.progress->finish(cat("wrote ", options_.output_dir.string()));
    return report_;
  }

 private:
  std::vector<LayerDecision> all_decisions() const {
    std::vector<LayerDecision> all;
    for (const auto& part : parts_)
      for (LayerDecision decision : part->plan().in_order) {
        decision.name = part->model().scope() + decision.name;
        all.push_back(std::move(decision));
      }
    return all;
  }

  // That of the first model, and under their names those of the others.
  json fingerprint() const {
    json all = parts_.front()->fingerprint();
    all["quantize_text_encoder"] = options_.text_encoders;
    for (const auto& part : parts_)
      if (part != parts_.front()) all[part->model().component()] = part->fingerprint();
    return all;
  }

  void run_parts(const std::filesystem::path& staging) {
    JobPlace place;
    for (const auto& part : parts_) place.all_blocks += part->num_blocks();
    for (const auto& part : parts_) {
      part->run(staging / part->model().component(), place, report_);
      place.first_block += part->num_blocks();
    }
  }

  void write_result(const std::filesystem::path& folder) {
    const JobPlan& plan = parts_.front()->plan();
    report_.model = options_.model;
    report_.format = options_.format;
    report_.method = method_name(options_.method);
    report_.scheme = plan.mix.empty() ? to_string(plan.base) : plan.mix;
    remove_tree(folder);
    std::set<std::string> written;
    for (const auto& part : parts_) written.insert(part->model().component());
    const std::filesystem::path pipeline = parts_.front()->model().pipeline();
    if (!pipeline.empty()) copy_pipeline(pipeline, written, folder);
    for (const auto& part : parts_) {
      const std::filesystem::path own = folder / part->model().component();
      std::filesystem::create_directories(own);
      part->write(own, report_);
    }
  }

  const JobOptions& options_;
  const JobListener& listener_;
  const Format& format_;
  std::vector<std::unique_ptr<ModelJob>> parts_;
  RunReport report_;
};

}  // namespace

at::ScalarType tuning_dtype(at::Device device) {
  bool native = device.is_cuda() || cpu_features().avx512_bf16 || cpu_features().amx;
  return native ? at::kBFloat16 : at::kFloat;
}

RunReport run_job(const JobOptions& options, const JobListener& listener) {
  return Job(options, listener).run();
}

}  // namespace quaver::quantize
