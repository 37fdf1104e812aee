#include "formats/group_index.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"

namespace quaver {
namespace {

std::vector<int64_t> read_entries(const TensorView& view, const std::string& what) {
  require(view.dtype == DType::kI32 || view.dtype == DType::kI64, ErrorKind::kBadFile, what, " has dtype ",
          dtype_info(view.dtype).name, ", expected i32");
  require(view.shape.size() == 1, ErrorKind::kBadFile, what, " has shape ", view.shape,
          ", expected one dimension");
  std::vector<int64_t> index(static_cast<size_t>(view.shape[0]));
  for (size_t k = 0; k < index.size(); ++k) {
    int32_t narrow = 0;
    if (view.dtype == DType::kI64)
      std::memcpy(&index[k], view.data.bytes().data() + k * 8, 8);
    else
      std::memcpy(&narrow, view.data.bytes().data() + k * 4, 4), index[k] = narrow;
  }
  return index;
}

// Position of each channel when channels are sorted by group, stably.
std::vector<int32_t> permutation_of(const std::vector<int64_t>& index, int64_t group, int64_t groups,
                                    const std::string& what) {
  std::vector<int64_t> next(static_cast<size_t>(groups));
  for (int64_t g = 0; g < groups; ++g) next[static_cast<size_t>(g)] = g * group;
  std::vector<int32_t> positions(index.size());
  for (size_t k = 0; k < index.size(); ++k) {
    require(index[k] >= 0 && index[k] < groups, ErrorKind::kBadFile, what, " puts channel ", k,
            " into group ", index[k], " of ", groups);
    const int64_t position = next[static_cast<size_t>(index[k])]++;
    require(position < (index[k] + 1) * group && position < static_cast<int64_t>(index.size()),
            ErrorKind::kBadFile, what, " puts more than ", group, " channels into group ", index[k]);
    positions[k] = static_cast<int32_t>(position);
  }
  return positions;
}

bool all_equal(const std::vector<int64_t>& index, int64_t wanted) {
  return std::all_of(index.begin(), index.end(), [&](int64_t group) { return group == wanted; });
}

}  // namespace

std::vector<int32_t> read_group_index(const Checkpoint& checkpoint, const std::string& name,
                                      const QuantWeight& weight, bool in_earnest) {
  const std::string what = cat(checkpoint.file_of(name), ": tensor '", name, "'");
  std::vector<int64_t> index = read_entries(checkpoint.read(name), what);
  require(static_cast<int64_t>(index.size()) >= weight.shape.cols, ErrorKind::kBadFile, what, " has ",
          index.size(), " entries, expected ", weight.shape.cols);
  index.resize(static_cast<size_t>(weight.shape.cols));
  bool plain = true;
  for (size_t k = 0; k < index.size(); ++k) plain &= index[k] == static_cast<int64_t>(k) / weight.group.cols;
  if (plain) return {};
  if (!in_earnest && (all_equal(index, 0) || all_equal(index, -1))) {
    log_warning(what, index[0] == 0 ? " is all zero" : " is all -1",
                ", a placeholder; taking channels in order");
    return {};
  }
  return permutation_of(index, weight.group.cols, weight.num_group_cols(), what);
}

std::vector<int32_t> group_index_of(const QuantWeight& weight) {
  std::vector<int32_t> index(static_cast<size_t>(weight.shape.cols));
  for (size_t k = 0; k < index.size(); ++k) {
    const int64_t position = weight.permutation.empty() ? static_cast<int64_t>(k) : weight.permutation[k];
    index[k] = static_cast<int32_t>(position / weight.group.cols);
  }
  return index;
}

}  // namespace quaver
