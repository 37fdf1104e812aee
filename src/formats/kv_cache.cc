#include "formats/kv_cache.h"

#include <algorithm>
#include <cmath>

#include "formats/quant_weight.h"

namespace quaver {
namespace {

struct Suffix {
  const char* name;
  bool k, v;
};
constexpr Suffix kSuffixes[] = {
    {"k_scale", true, false},
    {"v_scale", false, true},
    {"k_proj.k_scale", true, false},
    {"v_proj.v_scale", false, true},
    {"k_proj.output_scale", true, false},
    {"v_proj.output_scale", false, true},
    {"k_proj.output_quantizer.scale", true, false},
    {"v_proj.output_quantizer.scale", false, true},
    {"kv_scale", true, true},
};

std::vector<float> read_scales(const Checkpoint& checkpoint, const std::string& name) {
  const TensorView view = checkpoint.read(name);
  const std::string what = cat(checkpoint.file_of(name), ": tensor '", name, "'");
  require(view.dtype == DType::kF32 || view.dtype == DType::kF16 || view.dtype == DType::kBF16,
          ErrorKind::kBadFile, what, " has dtype ", dtype_info(view.dtype).name,
          ", expected f32, f16 or bf16");
  const ScaleCodec codec = view.dtype == DType::kF32   ? ScaleCodec::kF32
                           : view.dtype == DType::kF16 ? ScaleCodec::kF16
                                                       : ScaleCodec::kBF16;
  const std::vector<float> scales = decode_scales({.codec = codec, .data = view.data});
  require(!scales.empty(), ErrorKind::kBadFile, what, " is empty");
  for (float scale : scales)
    require(std::isfinite(scale) && scale > 0, ErrorKind::kBadFile, what, " holds ", scale,
            ", expected positive numbers");
  return scales;
}

}  // namespace

KvScales read_kv_scales(const Checkpoint& checkpoint, std::string_view attention) {
  KvScales scales;
  for (const Suffix& suffix : kSuffixes) {
    const std::string name = cat(attention, ".", suffix.name);
    if (!checkpoint.find(name)) continue;
    require((!suffix.k || scales.k.empty()) && (!suffix.v || scales.v.empty()), ErrorKind::kBadFile,
            checkpoint.file_of(name), ": tensor '", name, "' repeats a scale that '",
            scales.tensors.empty() ? "" : scales.tensors.back(), "' or another tensor gives already");
    const std::vector<float> values = read_scales(checkpoint, name);
    if (suffix.k) scales.k = values;
    if (suffix.v) scales.v = values;
    scales.tensors.push_back(name);
  }
  require(scales.k.size() == scales.v.size(), ErrorKind::kBadFile, checkpoint.path().string(), ": layer '",
          attention, "' has ", scales.k.size(), " scales for its keys and ", scales.v.size(),
          " for its values");
  return scales;
}

std::vector<NamedTensor> pack_kv_scales(std::string_view attention, const KvPair& scales,
                                        const KvNames& names, const std::vector<int64_t>& shape) {
  const auto tensor = [&](const char* name, float value) {
    return NamedTensor{cat(attention, ".", name),
                       {DType::kF32, shape, Buffer::copy_of(std::vector<float>{value})}};
  };
  return {tensor(names.k, scales.k), tensor(names.v, scales.v)};
}

bool has_kv_scales(const Checkpoint& checkpoint) {
  return std::ranges::any_of(checkpoint.tensors(), [](const TensorInfo& tensor) {
    return std::ranges::any_of(
        kSuffixes, [&](const Suffix& suffix) { return tensor.name.ends_with(cat(".", suffix.name)); });
  });
}

}  // namespace quaver
