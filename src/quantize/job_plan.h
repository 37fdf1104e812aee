// What a job is going to do, decided before any work: a scheme for each layer, and what the format is told.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/progress.h"
#include "checkpoint/checkpoint.h"
#include "formats/format.h"
#include "models/llm/causal_lm.h"
#include "quantize/block_model.h"
#include "quantize/job.h"
#include "quantize/layer_rounding.h"
#include "quantize/scheme.h"

namespace quaver::quantize {

// Borrows all of it.
struct PlannedModel {
  const JobOptions& options;
  const Format& format;
  const BlockModel& model;             // plain
  std::vector<LayerDecision> decided;  // as decide_models() has them
  std::function<std::unique_ptr<models::DecoderBlock>(int64_t)> load_block;
};

struct JobPlan {
  Scheme base;                                     // of most weights
  std::map<std::string, LayerDecision> decisions;  // by layer
  std::vector<LayerDecision> in_order;             // the same in the model's order, the head last
  std::string mix;                                 // what mixed bits came to; empty without them
  Recipe recipe;
  bool calibrated =
      false;  // samples are needed: rounding alone needs none, unless an input's scale is to be found

  bool quantizes(const std::string& layer) const {
    auto found = decisions.find(layer);
    return found != decisions.end() && found->second.scheme.bits != 16;
  }
};

// The rules' decisions for each model's layers, which meet all of them as one list, under their scopes: a
// rule is to match a layer of any. A head that is to be quantized is a layer too. Error(kInvalidInput) as
// decide_layers, and for a head that isn't there.
std::vector<std::vector<LayerDecision>> decide_models(const JobOptions& options,
                                                      const std::vector<std::unique_ptr<BlockModel>>& models);

// Error(kInvalidInput) for what the format has no words for. Mixed bits are searched here, which takes as
// long as measure_sensitivity does; `progress` hears of it.
JobPlan plan_job(PlannedModel model, ProgressSink& progress);

const char* method_name(Method method);
RoundingMethod rounding_method(Method method);

// All that decides the bytes of the result: an interrupted run continues under an equal one alone.
json job_fingerprint(const JobOptions& options, const BlockModel& model, const JobPlan& plan);

}  // namespace quaver::quantize
