// The flags that decide how a text model is loaded; the same for every command that runs one.
#pragma once

#include <string>

#include "apps/command.h"
#include "pipeline/text_pipeline.h"

namespace quaver::apps {

inline void add_strict_activations(CLI::App& app, bool& strict) {
  add_on_off(app, "strict-activations", strict,
             "quantize the inputs of layers where the checkpoint asks for it; off: weights alone");
}

inline void add_text_model_flags(CLI::App& app, pipeline::TextPipelineOptions& options) {
  add_model(app, options.model);
  add_flag(app, "device", options.device, "auto, cpu, cuda or cuda:N");
  add_flag(app, "dtype", options.dtype, "of activations: auto, float32, bfloat16 or float16");
  add_flag(app, "kv-cache-dtype", options.kv_cache_dtype,
           "auto (as the checkpoint asks, else --dtype), float32, bfloat16, float16, fp8");
  add_flag(app, "kv-cache-memory", options.kv_cache_memory,
           "bytes for keys and values; 0 = chosen from free memory");
  add_flag(app, "max-model-len", options.max_model_len,
           "longest prompt and answer together; 0 = the checkpoint's");
  add_strict_activations(app, options.strict_activations);
  add_switch(app, "tie-embeddings", options.tie_embeddings,
             "use the embedding as the head whatever the config says");
}

}  // namespace quaver::apps
