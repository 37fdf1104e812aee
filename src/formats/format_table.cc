// All vendor formats, in the order in which they are asked.
#include <algorithm>
#include <cctype>
#include <set>

#include "formats/auto_awq.h"
#include "formats/auto_gptq.h"
#include "formats/auto_round.h"
#include "formats/bitsandbytes.h"
#include "formats/compressed_tensors.h"
#include "formats/format.h"
#include "formats/fp8.h"
#include "formats/gguf.h"
#include "formats/modelopt.h"
#include "formats/mxfp4.h"
#include "formats/quantization_config.h"
#include "formats/quark.h"
#include "formats/torchao.h"

namespace quaver {
namespace {

std::string supported_names() {
  std::string names;
  for (const Format& format : all_formats()) names += (names.empty() ? "" : ", ") + std::string(format.name);
  return names;
}

}  // namespace

std::span<const Format> all_formats() {
  static const Format formats[] = {
      kAutoRoundFormat,         kAutoGptqFormat, kAutoAwqFormat, kFp8Format,
      kCompressedTensorsFormat, kModelOptFormat, kQuarkFormat,   kBitsAndBytesFormat,
      kTorchAoFormat,           kMxfp4Format,    kGgufFormat,
  };
  return formats;
}

std::vector<std::string> quantized_layers(const Checkpoint& checkpoint, const Format& format) {
  if (format.layers) return format.layers(checkpoint);
  std::vector<std::string> layers;
  std::set<std::string> seen;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    const std::string module = tensor.name.substr(0, std::min(tensor.name.rfind('.'), tensor.name.size()));
    if (seen.insert(module).second && !format.plan(checkpoint, module).tensors.empty())
      layers.push_back(module);
  }
  return layers;
}

const Format* find_format(std::string_view name) {
  for (const Format& format : all_formats())
    if (name == format.name || (format.tool_name && name == format.tool_name)) return &format;
  return nullptr;
}

const Format* format_called(std::string_view name) {
  std::string wanted(name);
  std::ranges::transform(wanted, wanted.begin(), [](unsigned char c) { return std::tolower(c); });
  if (const Format* format = find_format(wanted)) return format;
  for (const Format& format : all_formats())
    if (std::ranges::find(format.methods, wanted) != format.methods.end()) return &format;
  return nullptr;
}

const Format* detect_format(const Checkpoint& checkpoint) {
  for (const Format& format : all_formats()) {
    if (!format.detect(checkpoint)) continue;
    format.unmatched_rules(checkpoint);  // reads all settings, and refuses those that can't be followed
    return &format;
  }
  const auto config = find_quantization_config(checkpoint);
  require(!config, ErrorKind::kUnsupported, checkpoint.path().string(), ": quantization method '",
          config ? config->method.substr(0, 80) : "", "' is not supported; supported are ",
          supported_names());
  for (const TensorInfo& tensor : checkpoint.tensors())
    require(!tensor.name.ends_with(".qweight"), ErrorKind::kBadFile, checkpoint.file_of(tensor.name),
            ": tensor '", tensor.name, "' is packed, but the checkpoint has no quantization settings");
  return nullptr;
}

}  // namespace quaver
