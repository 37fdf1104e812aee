#include "formats/scaled_parts.h"

#include <algorithm>
#include <cstring>

namespace quaver {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 31;

bool is_matrix(const TensorInfo& info) {
  return info.shape.size() == 2 && std::all_of(info.shape.begin(), info.shape.end(),
                                               [](int64_t n) { return n > 0 && n <= kMaxExtent; });
}

int64_t entry(const TensorView& view, size_t index) {
  if (view.dtype == DType::kI64) {
    int64_t value = 0;
    std::memcpy(&value, view.data.bytes().data() + index * 8, 8);
    return value;
  }
  int32_t value = 0;
  std::memcpy(&value, view.data.bytes().data() + index * 4, 4);
  return value;
}

}  // namespace

ScaledParts::ScaledParts(const Checkpoint& checkpoint, std::string_view layer)
    : checkpoint_(checkpoint), layer_(layer) {
  for (const PartName& row : kPartNames) add(cat(layer, ".", row.suffix), row.part);
}

ScaledParts::ScaledParts(const Checkpoint& checkpoint, const LayerPlan& plan)
    : checkpoint_(checkpoint), layer_(plan.layer) {
  for (const std::string& name : plan.tensors)
    for (const PartName& row : kPartNames)
      if (name == cat(plan.layer, ".", row.suffix)) add(name, row.part);
}

void ScaledParts::add(const std::string& name, Part part) {
  const TensorInfo* info = checkpoint_.find(name);
  if (!info) return;
  const TensorInfo*& slot = parts_[static_cast<size_t>(part)];
  require(!slot, ErrorKind::kBadFile, checkpoint_.file_of(name), ": tensor '", name, "' stands beside '",
          slot ? slot->name : "", "'; a layer has one or the other");
  slot = info;
}

std::vector<std::string> ScaledParts::names() const {
  std::vector<std::string> names;
  for (const TensorInfo* info : parts_)
    if (info) names.push_back(info->name);
  return names;
}

std::string ScaledParts::where(Part part) const {
  const std::string& name = (*this)[part]->name;
  return cat(checkpoint_.file_of(name), ": tensor '", name, "'");
}

std::string ScaledParts::layer_where() const {
  std::string suffixes;
  for (const std::string& name : names())
    suffixes += (suffixes.empty() ? "" : ", ") + name.substr(layer_.size() + 1);
  return cat(checkpoint_.file_of((*this)[Part::kCodes]->name), ": layer '", layer_, "' (", suffixes, ")");
}

Extent2d ScaledParts::shape(CodeStorage storage, int bits) const {
  const TensorInfo& codes = *(*this)[Part::kCodes];
  require(is_matrix(codes), ErrorKind::kBadFile, where(Part::kCodes), " has shape ", codes.shape,
          ", expected two dimensions");
  if (storage == CodeStorage::kBytes) return {codes.shape[0], codes.shape[1]};
  if (storage == CodeStorage::kNibbles) return {codes.shape[0], codes.shape[1] * 2};
  const TensorInfo* info = (*this)[Part::kShape];
  if (!info) return {codes.shape[0], codes.shape[1] * 32 / bits};
  require(
      (info->dtype == DType::kI64 || info->dtype == DType::kI32) && info->shape == std::vector<int64_t>{2},
      ErrorKind::kBadFile, where(Part::kShape), " has dtype ", dtype_info(info->dtype).name, " and shape ",
      info->shape, ", expected i64 [2]");
  const TensorView view = checkpoint_.read(info->name);
  const Extent2d shape{entry(view, 0), entry(view, 1)};
  const bool fits =
      shape.rows == codes.shape[0] && shape.cols > 0 && shape.cols <= kMaxExtent &&
      (codes.shape[1] == dense_words(shape.cols, bits) || codes.shape[1] == padded_words(shape.cols, bits));
  require(fits, ErrorKind::kBadFile, where(Part::kShape), " says [", shape.rows, ", ", shape.cols, "], but '",
          codes.name, "' has shape ", codes.shape, " at ", bits, " bits");
  return shape;
}

Extent2d ScaledParts::group_of(const WeightScheme& scheme, Extent2d shape) {
  Extent2d group = scheme.group;
  if (group.rows == 0) group.rows = shape.rows;
  if (group.cols == 0 || (group.rows == 1 && group.cols > shape.cols)) group.cols = shape.cols;
  return group;
}

int64_t dense_words(int64_t count, int bits) { return (count * bits + 31) / 32; }

int64_t padded_words(int64_t count, int bits) { return (count + 32 / bits - 1) / (32 / bits); }

}  // namespace quaver
