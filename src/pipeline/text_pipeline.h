// A text model and its engine as a pipeline.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"
#include "nn/weight_source.h"
#include "pipeline/pipeline.h"

namespace quaver::pipeline {

struct TextPipelineOptions {
  std::string model;           // a folder or a .gguf file
  std::string device = "cpu";  // "cpu", "cuda", "cuda:1"
  // Of activations: auto, float32, float16 or bfloat16. auto is float32 on the CPU, where kernels may round
  // activations to the formats that they multiply in, and the checkpoint's own 16-bit type elsewhere
  // (bfloat16 when it has none). float32 asked for by name forbids that rounding.
  std::string dtype = "auto";
  // auto, float32, float16, bfloat16, fp8 or fp8_e4m3 (the same: e4m3fn under the checkpoint's scales, or 1).
  // auto is e4m3fn where the checkpoint asks for it, float32 when `dtype` is float32 by name, float16 when it
  // is float16, else bfloat16.
  std::string kv_cache_dtype = "auto";
  int64_t kv_cache_memory = 0;         // bytes; 0 = what memory_budget.h says
  int64_t max_model_len = 0;           // 0 = the checkpoint's, or less where the cache is too small for it
  int64_t max_num_seqs = 0;            // 0 = 64 on the CPU, else 256
  int64_t max_num_batched_tokens = 0;  // 0 = 512 on the CPU, else 8192
  int64_t block_size = 16;             // tokens per block of the cache
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;
  // Inputs of layers are quantized where the checkpoint asks for it; false: weights alone are.
  bool strict_activations = true;
  bool tie_embeddings = false;  // use the embedding as the head whatever the config says
  // What plain weights are rounded to while they load, a name that `rounding` knows; empty: they stay plain.
  std::string quantization;
  // What does the rounding to `name`; null where the checkpoint needs none. Set with `quantization`.
  nn::RoundPlain (*rounding)(const Checkpoint& checkpoint, const std::string& name) = nullptr;
  int64_t max_queue = 1024;
  std::string memory_limit = "free";  // what the weights may take: memory_plan.h
};

// Loads the model and starts its engine; returns when requests can be answered at full speed. Throws Error:
// kInvalidInput names the option, kBadFile and kUnsupported the file, kOutOfMemory what did not fit.
std::unique_ptr<TextPipeline> open_text_pipeline(const TextPipelineOptions& options);

}  // namespace quaver::pipeline
