// Writes any loadable model as one GGUF file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "quantize/gguf_model.h"

namespace quaver::quantize {

struct GgufExportOptions {
  std::string model;             // folder or .gguf
  std::filesystem::path output;  // "out.gguf"
  std::string mix;               // "Q4_K_M" in any case; empty: every value stays as it is
  bool overwrite = false;
};

struct GgufExportReport {
  int64_t bytes = 0;               // of all tensors
  std::string what;                // "Q4_0: 28 matrices with the same values, 1 rounded"
  std::vector<std::string> notes;  // what else a user should know, one line each
};

// The file appears when it has been read back, as write_gguf does it, and opens as a model.
// Error(kInvalidInput): an unknown mix, a file that is there already, or a tensor that no type holds as it
// is.
GgufExportReport export_gguf(const GgufExportOptions& options, ProgressSink& progress);

// As above, of a model that is open already; `output`, `mix` and the name of the model alone are looked at.
GgufExportReport export_gguf(GgufModel& model, const GgufExportOptions& options, ProgressSink& progress);

// "gguf:q4_k_m" and "gguf" in any case: what stands behind the colon, or ""; nothing when it is no such name.
std::optional<std::string> gguf_mix_of(std::string_view target);

}  // namespace quaver::quantize
