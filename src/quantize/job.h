// The whole job of `quaver quantize`: from a model's files to a checked folder, block by block, resumable.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "quantize/autoround.h"
#include "quantize/calibration.h"
#include "quantize/report.h"
#include "quantize/scheme.h"
#include "quantize/trajectory.h"

namespace quaver::quantize {

enum class Method { kRtn, kOptRtn, kAutoRound };

struct JobOptions {
  std::string model;                 // folder or .gguf; of a pipeline its transformer is quantized
  bool text_encoders = false;        // and what reads its prompts
  std::filesystem::path output_dir;  // must not exist or be empty, unless `overwrite`
  std::string format = "auto_round";
  Method method = Method::kAutoRound;
  LayerRules rules;
  TuneOptions tune;
  CalibrationOptions calibration;      // of language models
  TrajectoryOptions trajectory;        // of picture models
  double mean_bits = 0;                // above 0: layers get schemes of `options` below this mean
  std::vector<Scheme> scheme_options;  // to mix; empty: default_options() of the base scheme
  bool fp8_kv_cache = false;           // find scales for keys and values in e4m3fn
  bool resume = false;                 // go on with the run that was interrupted in <output_dir>.partial
  bool overwrite = false;              // replace an existing output folder or an interrupted run
  at::Device device = at::kCPU;
  uint64_t max_shard_bytes = 5'000'000'000;
};

struct JobListener {
  std::function<void(const std::vector<LayerDecision>&)> on_plan;  // before any work
  std::function<void(const std::string&)>
      on_calibration;                                // of each model, when there is any: what it runs on
  std::function<void(const BlockReport&)> on_block;  // after each block, resumed ones included
  ProgressSink* progress = &null_progress();
};

// Works in <output_dir>.partial and renames it to output_dir when everything written has been read back; at
// any moment before that output_dir is as it was. Memory: one block's weights (about six times over while it
// is tuned) and two copies of the calibration activations. A killed run continues with `resume` at its first
// unfinished block and gives the same bytes. Throws Error.
RunReport run_job(const JobOptions& options, const JobListener& listener);

// The environment that `run_job` computes in: bfloat16 where the device multiplies it natively, else float32.
at::ScalarType tuning_dtype(at::Device device);

}  // namespace quaver::quantize
