#include "nn/linear_shard.h"

#include <ATen/ops/cat.h>

#include <numeric>
#include <utility>

#include "base/error.h"

namespace quaver::nn {

namespace {

bool is_divided(const RankGroup* ranks) { return ranks && ranks->size() > 1; }

std::vector<int64_t> parts_of(const RankGroup& ranks, int64_t total, int64_t unit) {
  std::vector<int64_t> parts = even_split(total / unit, ranks.size());
  for (int64_t& part : parts) part *= unit;
  return parts;
}

int64_t unit_of_channels(const RankGroup& ranks, int64_t total) {
  int64_t unit = 128;
  while (unit > 1 && (total % unit != 0 || total / unit < 4 * ranks.size())) unit /= 2;
  return unit;
}

LinearShard divided(const RankGroup* ranks, LinearShard::Part part, int64_t whole,
                    std::vector<IndexRun> runs) {
  if (!is_divided(ranks)) return {};
  return {.part = part, .runs = std::move(runs), .whole = whole, .ranks = ranks};
}

}  // namespace

IndexRun share_of(const RankGroup* ranks, int64_t total, int64_t unit) {
  if (!is_divided(ranks)) return {0, total};
  const std::vector<int64_t> parts = parts_of(*ranks, total, unit);
  const auto own = parts.begin() + ranks->rank();
  require(*own > 0, ErrorKind::kInvalidInput, "rank ", ranks->rank(), " of ", ranks->size(),
          " would get nothing of ", total / unit, " parts; use fewer ranks");
  return {std::accumulate(parts.begin(), own, int64_t{0}), *own};
}

IndexRun share_of_channels(const RankGroup* ranks, int64_t total) {
  return share_of(ranks, total, is_divided(ranks) ? unit_of_channels(*ranks, total) : 1);
}

LinearShard shard_of_rows(const RankGroup* ranks, int64_t rows, std::vector<IndexRun> runs) {
  return divided(ranks, LinearShard::Part::kRows, rows, std::move(runs));
}

LinearShard shard_of_columns(const RankGroup* ranks, int64_t columns, std::vector<IndexRun> runs) {
  return divided(ranks, LinearShard::Part::kColumns, columns, std::move(runs));
}

LinearShard shard_of_gathered_rows(const RankGroup* ranks, int64_t rows) {
  LinearShard shard =
      divided(ranks, LinearShard::Part::kGatheredRows, rows, {share_of_channels(ranks, rows)});
  if (shard.ranks) shard.gathered = parts_of(*ranks, rows, unit_of_channels(*ranks, rows));
  return shard;
}

at::Tensor taken(const at::Tensor& x, int64_t dim, std::span<const IndexRun> runs) {
  std::vector<at::Tensor> parts;
  for (const IndexRun& run : runs) parts.push_back(x.narrow(dim, run.first, run.count));
  return parts.size() == 1 ? parts.front() : at::cat(parts, dim);
}

at::Tensor brought_together(const LinearShard& shard, const at::Tensor& product) {
  if (shard.has_columns()) return shard.ranks->all_reduce(product);
  if (shard.part == LinearShard::Part::kGatheredRows)
    return shard.ranks->all_gather(product, product.dim() - 1, shard.gathered);
  return product;
}

}  // namespace quaver::nn
