// The flags that decide how a text model is loaded; the same for every command that runs one.
#pragma once

#include <string>

#include "apps/command.h"
#include "base/error.h"
#include "pipeline/memory_plan.h"
#include "pipeline/text_pipeline.h"
#include "quantize/online.h"

namespace quaver::apps {

inline void add_strict_activations(CLI::App& app, bool& strict) {
  add_on_off(app, "strict-activations", strict,
             "quantize the inputs of layers where the checkpoint asks for it; off: weights alone");
}

// Checked while flags are parsed, before a model is looked for or downloaded.
inline void add_quantization(CLI::App& app, std::string& name,
                             const std::string& flag = "-q,--quantization") {
  const auto problem = [](const std::string& given) -> std::string {
    try {
      quantize::check_online_name(given);
    } catch (const Error& e) {
      return e.what();
    }
    return {};
  };
  app.add_option(flag, name,
                 cat("round the linear layers of a plain model's blocks to nearest while they load: ",
                     quantize::online_schemes()))
      ->check(problem)
      ->type_name("NAME");
}

inline void add_memory_limit(CLI::App& app, std::string& limit) {
  const auto problem = [](const std::string& given) -> std::string {
    try {
      pipeline::check_memory_limit(given);
    } catch (const Error& e) {
      return e.what();
    }
    return {};
  };
  add_flag(app, "memory-limit", limit,
           "refuse to load what takes more on its device: free (what is free there), none, or a size: 12GiB")
      ->check(problem)
      ->type_name("SIZE");
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
  add_memory_limit(app, options.memory_limit);
  add_strict_activations(app, options.strict_activations);
  add_quantization(app, options.quantization);
  options.rounding = quantize::online_rounding;
  add_switch(app, "tie-embeddings", options.tie_embeddings,
             "use the embedding as the head whatever the config says");
}

}  // namespace quaver::apps
