// Which part of a linear layer one rank of a group holds, and how the parts' products become the layer's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "formats/shard.h"
#include "nn/rank_group.h"

namespace quaver::nn {

// Borrows the group. A default one is the whole layer.
struct LinearShard {
  enum class Part : uint8_t {
    kWhole,
    kRows,          // some of the outputs, and each rank goes on with its own
    kGatheredRows,  // some of the outputs, of which every rank gets all
    kColumns,       // some of the inputs; the layer's output is the sum over the ranks
  } part = Part::kWhole;
  std::vector<IndexRun> runs;     // of the whole weight's rows or columns, in this order
  std::vector<int64_t> gathered;  // kGatheredRows: how many rows each rank holds
  int64_t whole = 0;              // rows or columns of the whole weight
  const RankGroup* ranks = nullptr;

  bool has_rows() const { return part == Part::kRows || part == Part::kGatheredRows; }
  bool has_columns() const { return part == Part::kColumns; }
};

// This rank's part of `total` where `unit` neighbours stay together (the channels of a head), in the ranks'
// order; all of it where there is no group. Precondition: unit divides total.
IndexRun share_of(const RankGroup* ranks, int64_t total, int64_t unit);
// The same of channels that may be parted anywhere: at multiples of up to 128, so that the groups of
// quantized weights stay whole, as long as no rank's part grows by more than a quarter.
IndexRun share_of_channels(const RankGroup* ranks, int64_t total);

// The whole layer where there is no group, or a group of one.
LinearShard shard_of_rows(const RankGroup* ranks, int64_t rows, std::vector<IndexRun> runs);
LinearShard shard_of_columns(const RankGroup* ranks, int64_t columns, std::vector<IndexRun> runs);
LinearShard shard_of_gathered_rows(const RankGroup* ranks, int64_t rows);

// The runs of `x` along `dim`, one after the other: a view where there is one run.
at::Tensor taken(const at::Tensor& x, int64_t dim, std::span<const IndexRun> runs);

// The layer's output from this rank's product: a collective where the shard asks for one.
at::Tensor brought_together(const LinearShard& shard, const at::Tensor& product);  // [..., rows here]

}  // namespace quaver::nn
