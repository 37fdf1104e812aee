#include "eval/image_run.h"

#include <ATen/DeviceAccelerator.h>

#include <chrono>
#include <cstdio>

#include "diffusion/image_job.h"
#include "pipeline/peak_memory.h"

namespace quaver::eval {

namespace {

// From here on, peak_memory tells of what comes. False where that can't be had.
bool restart_peak(at::Device device) {
  if (!device.is_cpu()) {
    at::accelerator::resetPeakStats(device.has_index() ? device.index() : c10::DeviceIndex{0});
    return true;
  }
  // Sets the largest resident set to the present one: man 5 proc_pid_clear_refs.
  std::FILE* file = std::fopen("/proc/self/clear_refs", "w");
  if (file == nullptr) return false;
  const bool written = std::fputs("5", file) >= 0;
  return std::fclose(file) == 0 && written;
}

class ImagePasses {
 public:
  ImagePasses(const diffusion::ImagePipeline& model, const std::vector<diffusion::ImageSpec>& specs,
              const ImageRunOptions& options, ProgressSink& progress)
      : model_(model), specs_(specs), options_(options), progress_(progress) {
    total_ = (options.warmup_runs + options.measure_runs) * static_cast<int64_t>(specs.size()) *
             model.schedule(specs.front()).steps();
  }

  // False when stopped.
  bool pass(const LatentSink& on_step, std::vector<DrawnPicture>& pictures) {
    for (size_t i = 0; i < specs_.size(); ++i) {
      diffusion::ImageJob job(model_, {specs_[i]});
      while (job.steps_done() < job.steps()) {
        if (options_.stop && options_.stop()) return false;
        job.step();
        if (on_step) on_step(i, job.latents().to(at::kCPU).contiguous());
        progress_.update(++done_, total_, cat("picture ", i + 1, " of ", specs_.size()));
      }
      pictures.push_back({job.decode(0), job.notes(0), job.steps_skipped()});
    }
    return true;
  }

 private:
  const diffusion::ImagePipeline& model_;
  const std::vector<diffusion::ImageSpec>& specs_;
  const ImageRunOptions& options_;
  ProgressSink& progress_;
  int64_t done_ = 0, total_;
};

}  // namespace

std::optional<ImageRun> run_images(const diffusion::ImagePipeline& model,
                                   const std::vector<diffusion::ImageSpec>& specs,
                                   const ImageRunOptions& options, const LatentSink& on_step,
                                   ProgressSink& progress) {
  using Clock = std::chrono::steady_clock;
  ImagePasses passes(model, specs, options, progress);
  ImageRun out;
  for (int64_t run = -options.warmup_runs; run < options.measure_runs; ++run) {
    std::vector<DrawnPicture> pictures;
    const bool known_peak = restart_peak(model.options().load.device);
    const Clock::time_point start = Clock::now();
    if (!passes.pass(run == 0 ? on_step : LatentSink(), pictures)) return std::nullopt;
    if (run < 0) continue;
    out.seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    const int64_t peak = pipeline::peak_memory(model.options().load.device).allocated;
    out.peak_bytes.push_back(known_peak ? std::optional(peak) : std::nullopt);
    if (run == 0) out.pictures = std::move(pictures);
  }
  return out;
}

}  // namespace quaver::eval
