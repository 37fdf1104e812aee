// Writes a quantized or converted model as a Hugging Face folder that stands alone, and reads it back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/staged_tensors.h"
#include "formats/format.h"

namespace quaver::quantize {

struct ExportedModel {
  const Checkpoint& source;
  std::string source_path;      // folder or .gguf, for tokenizer and sidecars
  const StagedTensors& staged;  // take precedence over the source's tensors of the same name
  std::function<bool(const std::string&)> is_replaced;  // source tensors that have no place in the result
  json config;                                          // config.json
  const Format* format = nullptr;  // whose settings `config` holds; null for a plain model
  uint64_t max_shard_bytes = 5'000'000'000;
};

// Weights, config.json, the format's settings file and everything else that serving needs. Every tensor of
// the source is in the result, replaced or copied as it is, but for a tied head's second copy. Returns the
// bytes of all tensors. Error(kInternal) when what was written can't be read back.
int64_t export_model(const ExportedModel& model, const std::filesystem::path& folder);

// "writable are auto_round, auto_gptq, ..."
std::string writable_format_names();

}  // namespace quaver::quantize
