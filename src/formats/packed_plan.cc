// Which tensors make a packed integer layer, and which of the config's schemes fits their shapes.
#include <algorithm>

#include "base/log.h"
#include "formats/packed_layer.h"

namespace quaver {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 31;

// What shapes and messages need of one layer's parts.
struct Parts {
  const TensorInfo* qweight;
  const TensorInfo* qzeros;
  const TensorInfo* scales;
};

std::string where(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  return cat(checkpoint.file_of(tensor.name), ": tensor '", tensor.name, "'");
}

const TensorInfo& require_matrix(const Checkpoint& checkpoint, const std::string& name,
                                 std::initializer_list<DType> types) {
  const TensorInfo* info = checkpoint.find(name);
  require(info != nullptr, ErrorKind::kBadFile, checkpoint.path().string(), ": tensor '", name,
          "' is missing although its layer is packed");
  require(std::find(types.begin(), types.end(), info->dtype) != types.end(), ErrorKind::kBadFile,
          where(checkpoint, *info), " has dtype ", dtype_info(info->dtype).name, ", expected ",
          dtype_info(*types.begin()).name);
  require(info->shape.size() == 2 && std::all_of(info->shape.begin(), info->shape.end(),
                                                 [](int64_t n) { return n > 0 && n <= kMaxExtent; }),
          ErrorKind::kBadFile, where(checkpoint, *info), " has shape ", info->shape,
          ", expected two dimensions");
  return *info;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::string shape_problem(const TensorInfo& tensor, const std::vector<int64_t>& expected) {
  if (tensor.shape == expected) return "";
  return cat("tensor '", tensor.name, "' has shape ", tensor.shape, ", expected ", expected);
}

// Empty when these parts can hold this scheme.
std::string misfit(const Parts& parts, const IntScheme& scheme, PackedLayout layout) {
  const int64_t bits = scheme.bits;
  const bool along_in = layout == PackedLayout::kWordsAlongIn;
  const int64_t words = parts.qweight->shape[along_in ? 0 : 1];
  if (words * 32 % bits != 0)
    return cat("tensor '", parts.qweight->name, "' has shape ", parts.qweight->shape,
               ", whose words hold no whole number of codes");
  const int64_t in = along_in ? words * 32 / bits : parts.qweight->shape[0];
  const int64_t out = along_in ? parts.qweight->shape[1] : words * 32 / bits;
  const int64_t groups = scheme.group_size == -1 ? 1 : ceil_div(in, scheme.group_size);
  std::string problem = shape_problem(*parts.scales, {groups, out});
  if (problem.empty()) problem = shape_problem(*parts.qzeros, {groups, ceil_div(out * bits, 32)});
  return problem;
}

std::string describe(const IntScheme& scheme) {
  if (scheme.plain) return "16 bits";
  return cat(scheme.bits, " bits, group ", scheme.group_size);
}

std::string origin(const IntScheme& scheme) {
  return scheme.rule.empty() ? "the defaults" : cat("'", scheme.rule, "'");
}

// Names whether the layer is plain; throws where its tensors are a muddle.
bool is_plain(const Checkpoint& checkpoint, const std::string& layer) {
  const TensorInfo* packed = checkpoint.find(layer + ".qweight");
  const TensorInfo* weight = checkpoint.find(layer + ".weight");
  require(!packed || !weight, ErrorKind::kBadFile, weight ? where(checkpoint, *weight) : "",
          " stands beside '", layer, ".qweight'; a layer has one or the other");
  if (packed) return false;
  for (const char* part : {".qzeros", ".scales"})
    if (const TensorInfo* left = checkpoint.find(layer + part))
      fail(ErrorKind::kBadFile, where(checkpoint, *left), " has no '", layer, ".qweight' beside it");
  return true;
}

const IntScheme& choose_scheme(const Checkpoint& checkpoint, const std::string& layer, const Parts& parts,
                               const std::vector<IntScheme>& candidates, PackedLayout layout) {
  const IntScheme* complaint = nullptr;
  for (const IntScheme& scheme : candidates) {
    if (scheme.plain) continue;
    if (!complaint) complaint = &scheme;
    if (!misfit(parts, scheme, layout).empty()) continue;
    if (&scheme != &candidates.front())
      log_warning(checkpoint.file_of(parts.qweight->name), ": layer '", layer, "' is stored with ",
                  describe(scheme), " although ", origin(candidates.front()),
                  " in the quantization settings asks for ", describe(candidates.front()),
                  "; reading what is stored");
    return scheme;
  }
  require(complaint != nullptr, ErrorKind::kBadFile, where(checkpoint, *parts.qweight),
          " is packed, but nothing in the quantization settings is meant for it");
  fail(ErrorKind::kBadFile, checkpoint.file_of(parts.qweight->name), ": ", misfit(parts, *complaint, layout),
       " for ", describe(*complaint), " by ", origin(*complaint), " of the quantization settings");
}

void warn_if_plain_against_exact_rule(const Checkpoint& checkpoint, const std::string& layer,
                                      const IntScheme& scheme) {
  const TensorInfo* weight = checkpoint.find(layer + ".weight");
  if (weight && !scheme.plain && scheme.rule == layer)
    log_warning(where(checkpoint, *weight), " is plain although the quantization settings ask for ",
                describe(scheme), "; reading what is stored");
}

}  // namespace

LayerPlan plan_packed_layer(const Checkpoint& checkpoint, std::string_view layer_name,
                            const std::vector<IntScheme>& candidates, const PackedConvention& convention) {
  const std::string layer(layer_name);
  LayerPlan plan{.layer = layer};
  if (is_plain(checkpoint, layer)) {
    warn_if_plain_against_exact_rule(checkpoint, layer, candidates.front());
    return plan;
  }
  const auto words = {DType::kI32, DType::kU32};
  const Parts parts{&require_matrix(checkpoint, layer + ".qweight", words),
                    &require_matrix(checkpoint, layer + ".qzeros", words),
                    &require_matrix(checkpoint, layer + ".scales", {DType::kF16, DType::kBF16, DType::kF32})};
  const IntScheme& scheme = choose_scheme(checkpoint, layer, parts, candidates, convention.layout);
  plan.tensors = {parts.qweight->name, parts.qzeros->name, parts.scales->name};
  if (checkpoint.find(layer + ".g_idx")) plan.tensors.push_back(layer + ".g_idx");
  plan.scheme = {{"bits", scheme.bits},
                 {"group_size", scheme.group_size},
                 {"sym", scheme.sym},
                 {"along_in", convention.layout == PackedLayout::kWordsAlongIn},
                 {"zero_offset", convention.zero_offset},
                 {"activation_order", convention.activation_order}};
  return plan;
}

}  // namespace quaver
