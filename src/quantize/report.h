// What a quantization run did, layer by layer: report.json for programs, report.html for people.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "quantize/scheme.h"

namespace quaver::quantize {

struct LayerReport {
  std::string name;
  std::string scheme_name;  // to_string() of the scheme
  Scheme scheme;            // of a resumed block bits, group size and symmetry alone
  std::string remark;       // why it differs from the base scheme, or what went wrong; may be empty
  int64_t source_bytes = 0, bytes = 0;
};

struct BlockReport {
  int64_t index = 0;
  double loss_before = 0, loss_after = 0;  // mean squared error of the block's output; both 0 when not tuned
  int64_t best_step = 0;
  double seconds = 0;
  std::vector<LayerReport> layers;
};

struct RunReport {
  std::string model, format, method, scheme, calibration;
  std::vector<BlockReport> blocks;
  int64_t source_bytes = 0, bytes = 0;  // all tensors of the model, before and after
  double seconds = 0;
  int64_t peak_memory_bytes = 0;  // resident, of the process
};

json to_json(const BlockReport& block);
BlockReport block_report_from_json(const json& value, const std::string& what);
json to_json(const RunReport& run);

// Self-contained page with a plot of the losses and a table of the layers.
std::string to_html(const RunReport& run);

void write_reports(const RunReport& run, const std::filesystem::path& folder);

}  // namespace quaver::quantize
