// From the options, the model and the memory at hand to the engine's sizes and types.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

#include "base/json.h"
#include "llm/engine.h"
#include "models/llm/causal_lm.h"
#include "pipeline/text_pipeline.h"

namespace quaver::pipeline {

// Throws Error(kInvalidInput) unless both dtype options are known words.
void check_dtypes(const TextPipelineOptions& options);

// Of activations, as text_pipeline.h documents it. `config` is the checkpoint's config.json.
at::ScalarType compute_dtype(const TextPipelineOptions& options, const json& config, at::Device device);

// `available` is the free memory of `device` after the model was loaded, in bytes. Throws
// Error(kInvalidInput) naming the option at fault, Error(kOutOfMemory) when the cache can't hold what was
// asked for.
llm::EngineOptions engine_limits(const TextPipelineOptions& options, const models::CausalLmInfo& info,
                                 at::Device device, int64_t available);

}  // namespace quaver::pipeline
