#include "formats/shard.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "formats/bitstream.h"

namespace quaver {
namespace {

int64_t total_of(std::span<const IndexRun> runs) {
  int64_t total = 0;
  for (const IndexRun& run : runs) total += run.count;
  return total;
}

// The groups along one side of a part.
struct CutGroups {
  int64_t size = 0;
  std::vector<int64_t> source;  // of each, the group of the whole weight
};

CutGroups all_groups(int64_t size, int64_t count) {
  CutGroups groups{.size = size, .source = std::vector<int64_t>(static_cast<size_t>(count))};
  std::iota(groups.source.begin(), groups.source.end(), 0);
  return groups;
}

// Every place where the whole weight's group changes must be one where a group of the part ends.
CutGroups cut_groups(std::span<const IndexRun> runs, int64_t group) {
  std::vector<std::pair<int64_t, int64_t>> changes;  // first index in the part, group of the whole
  int64_t at = 0;
  CutGroups cut;
  for (const IndexRun& run : runs)
    for (int64_t i = run.first, end = run.first + run.count; i < end;) {
      const int64_t step = std::min(end - i, group - i % group);
      if (changes.empty() || changes.back().second != i / group) changes.emplace_back(at, i / group);
      i += step, at += step;
    }
  for (const auto& change : changes) cut.size = std::gcd(cut.size, change.first);
  if (cut.size == 0) cut.size = at;
  for (size_t k = 0; k < changes.size(); ++k) {
    const int64_t end = k + 1 < changes.size() ? changes[k + 1].first : at;
    for (int64_t i = changes[k].first; i < end; i += cut.size) cut.source.push_back(changes[k].second);
  }
  return cut;
}

// Which of the whole weight's columns the part has, in its order.
template <class T>
std::vector<T> picked(const std::vector<T>& values, std::span<const IndexRun> runs) {
  std::vector<T> result;
  if (values.empty()) return result;
  for (const IndexRun& run : runs)
    std::copy_n(values.begin() + run.first, run.count, std::back_inserter(result));
  return result;
}

// The part's columns as an activation order finds their groups: each group of the whole gets as many groups
// of the part as its columns here fill. `positions` becomes the part's own order.
CutGroups scattered_groups(std::vector<int32_t>& positions, int64_t group) {
  std::vector<int64_t> members;  // of each group of the whole
  for (const int32_t position : positions) {
    const auto of = static_cast<size_t>(position / group);
    if (of >= members.size()) members.resize(of + 1);
    ++members[of];
  }
  CutGroups cut;
  for (const int64_t count : members) cut.size = std::gcd(cut.size, count);
  std::vector<int32_t> next(members.size());
  for (size_t g = 0; g < members.size(); ++g) {
    next[g] = static_cast<int32_t>(static_cast<int64_t>(cut.source.size()) * cut.size);
    cut.source.insert(cut.source.end(), static_cast<size_t>(members[g] / cut.size), static_cast<int64_t>(g));
  }
  for (int32_t& position : positions) position = next[static_cast<size_t>(position / group)]++;
  if (std::ranges::is_sorted(positions)) positions.clear();
  return cut;
}

// Which entries of the whole weight's table the part's table has, row-major.
std::vector<size_t> table_entries(const CutGroups& rows, const CutGroups& cols, int64_t columns_of_whole) {
  std::vector<size_t> entries;
  entries.reserve(rows.source.size() * cols.source.size());
  for (const int64_t row : rows.source)
    for (const int64_t col : cols.source)
      entries.push_back(static_cast<size_t>(row * columns_of_whole + col));
  return entries;
}

Buffer picked_bytes(const Buffer& data, size_t width, std::span<const size_t> entries) {
  std::byte* target = nullptr;
  Buffer result = Buffer::allocate(entries.size() * width, target);
  for (size_t i = 0; i < entries.size(); ++i)
    std::memcpy(target + i * width, data.bytes().data() + entries[i] * width, width);
  return result;
}

Scales picked_scales(const Scales& scales, std::span<const size_t> entries) {
  const auto width = static_cast<size_t>(scale_codec_info(scales.codec).bytes);
  Scales result{
      .codec = scales.codec, .data = picked_bytes(scales.data, width, entries), .divisor = scales.divisor};
  if (!scales.super) return result;
  const size_t above = scales.super->data.size_bytes() / scale_codec_info(scales.super->codec).bytes;
  const size_t share = scales.data.size_bytes() / width / above;
  size_t new_share = entries.size();  // entries that have one above them: it divides their number
  for (size_t i = 1; i < entries.size(); ++i)
    if (entries[i] / share != entries[i - 1] / share) new_share = std::gcd(new_share, i);
  std::vector<size_t> entries_above;
  for (size_t i = 0; i < entries.size(); i += new_share) entries_above.push_back(entries[i] / share);
  result.super = std::make_unique<Scales>(picked_scales(*scales.super, entries_above));
  return result;
}

// Everything but codes, columns' own numbers and what is asked of the input.
QuantWeight with_groups(const QuantWeight& whole, Extent2d shape, const CutGroups& rows,
                        const CutGroups& cols) {
  const std::vector<size_t> entries = table_entries(rows, cols, whole.num_group_cols());
  QuantWeight part;
  part.element = whole.element;
  part.shape = shape;
  part.group = {rows.size, cols.size};
  part.scale = picked_scales(whole.scale, entries);
  if (const auto* zeros = std::get_if<IntegerZeros>(&whole.offset))
    part.offset = IntegerZeros{picked_bytes(zeros->data, 1, entries)};
  if (const auto* mins = std::get_if<RealMins>(&whole.offset))
    part.offset = RealMins{picked_scales(mins->mins, entries)};
  return part;
}

Buffer codes_of_rows(const QuantWeight& whole, std::span<const IndexRun> rows) {
  const int64_t width = whole.row_bytes();
  std::byte* target = nullptr;
  Buffer codes = Buffer::allocate(static_cast<size_t>(total_of(rows) * width), target);
  for (const IndexRun& run : rows) {
    std::memcpy(target, whole.codes.bytes().data() + run.first * width,
                static_cast<size_t>(run.count * width));
    target += run.count * width;
  }
  return codes;
}

bool on_bytes(std::span<const IndexRun> runs, int bits) {
  return std::ranges::all_of(
      runs, [&](const IndexRun& run) { return run.first * bits % 8 == 0 && run.count * bits % 8 == 0; });
}

Buffer codes_of_columns(const QuantWeight& whole, std::span<const IndexRun> columns) {
  const int bits = element_info(whole.element).bits;
  const int64_t count = total_of(columns), width = bitstream_bytes(count, bits);
  std::byte* target = nullptr;
  Buffer codes = Buffer::allocate(static_cast<size_t>(whole.shape.rows * width), target);
  const bool whole_bytes = on_bytes(columns, bits);
  std::vector<uint8_t> spread(static_cast<size_t>(whole.shape.cols)), kept(static_cast<size_t>(count));
  for (int64_t row = 0; row < whole.shape.rows; ++row, target += width) {
    const std::byte* source = whole.codes.bytes().data() + row * whole.row_bytes();
    if (!whole_bytes) unpack_codes(source, bits, whole.shape.cols, spread.data());
    int64_t at = 0;
    for (const IndexRun& run : columns) {
      if (whole_bytes)
        std::memcpy(target + at * bits / 8, source + run.first * bits / 8,
                    static_cast<size_t>(run.count * bits / 8));
      else
        std::copy_n(spread.begin() + run.first, run.count, kept.begin() + at);
      at += run.count;
    }
    if (!whole_bytes) pack_codes(kept.data(), bits, count, target);
  }
  return codes;
}

// Groups of the input lie as those of the whole input do, a short one at its end.
void check_input_groups(const QuantWeight& whole, std::span<const IndexRun> columns, std::string_view what) {
  const ActivationQuant& asked = whole.activation;
  if (asked.mode != ActivationQuant::Mode::kDynamic || asked.group <= 0) return;
  for (const IndexRun& run : columns) {
    const bool at_end = &run == &columns.back() && run.first + run.count == whole.shape.cols;
    require(run.first % asked.group == 0 && (run.count % asked.group == 0 || at_end), ErrorKind::kUnsupported,
            what, ": inputs are quantized in groups of ", asked.group, " columns, and a part from column ",
            run.first, " to ", run.first + run.count, " of ", whole.shape.cols,
            " cuts one; divide the layer among fewer ranks");
  }
}

}  // namespace

QuantWeight rows_of(const QuantWeight& weight, std::span<const IndexRun> rows) {
  QuantWeight part =
      with_groups(weight, {total_of(rows), weight.shape.cols}, cut_groups(rows, weight.group.rows),
                  all_groups(weight.group.cols, weight.num_group_cols()));
  part.codes = codes_of_rows(weight, rows);
  part.permutation = weight.permutation;
  part.input_multiplier = weight.input_multiplier;
  part.activation = weight.activation;
  return part;
}

QuantWeight columns_of(const QuantWeight& weight, std::span<const IndexRun> columns, std::string_view what) {
  check_input_groups(weight, columns, what);
  std::vector<int32_t> permutation = picked(weight.permutation, columns);
  const CutGroups cut = permutation.empty() ? cut_groups(columns, weight.group.cols)
                                            : scattered_groups(permutation, weight.group.cols);
  QuantWeight part = with_groups(weight, {weight.shape.rows, total_of(columns)},
                                 all_groups(weight.group.rows, weight.num_group_rows()), cut);
  part.codes = codes_of_columns(weight, columns);
  part.permutation = std::move(permutation);
  part.input_multiplier = picked(weight.input_multiplier, columns);
  part.activation = weight.activation;
  return part;
}

}  // namespace quaver
