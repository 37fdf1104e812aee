// One model's part of a quantizing job: its blocks, from plain to quantized, staged one by one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "formats/format.h"
#include "quantize/block_model.h"
#include "quantize/job.h"
#include "quantize/job_plan.h"
#include "quantize/report.h"

namespace quaver::quantize {

// Of a model's blocks among those of the whole job.
struct JobPlace {
  int64_t first_block = 0, all_blocks = 0;
};

class ModelJob {
 public:
  virtual ~ModelJob() = default;
  virtual const BlockModel& model() const = 0;
  virtual const JobPlan& plan() const = 0;
  // A head that is quantized is one more.
  virtual int64_t num_blocks() const = 0;
  virtual json fingerprint() const = 0;
  // Gathers what the blocks run on, where the plan needs any. Once; run() does it where nobody did.
  virtual void calibrate(RunReport& report) = 0;
  // All blocks; those that stand in `staging` from an interrupted run are taken from there. Afterwards the
  // calibration is gone.
  virtual void run(const std::filesystem::path& staging, const JobPlace& place, RunReport& report) = 0;
  // The model's own folder, read back. After run(). Adds the bytes before and after to the report.
  virtual void write(const std::filesystem::path& folder, RunReport& report) = 0;
};

// Plans, which may take long where mixed bits are searched. Borrows all but the model. `decided`: of its
// layers, in their order. Error(kInvalidInput) where the model is quantized already, or for what the format
// has no words for.
std::unique_ptr<ModelJob> plan_model_job(const JobOptions& options, const JobListener& listener,
                                         const Format& format, std::unique_ptr<BlockModel> model,
                                         std::vector<LayerDecision> decided);

// How models of a job are loaded.
nn::LoadOptions job_load_options(const JobOptions& options);

}  // namespace quaver::quantize
