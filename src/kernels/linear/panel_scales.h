// How scales or minima lie in the panels of a weight: as stored, or decoded where the panels can't follow.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/linear/channel_blocks.h"
#include "kernels/linear/panels.h"

namespace quaver::kernels {

struct ScalePlan {
  ScaleCodec codec = ScaleCodec::kF32;
  int64_t bytes = 0;              // of one entry; 0: there are none
  bool decoded = false;           // both levels in one float
  int64_t columns = 0;            // entries of the second level that each row has; 0: no second level
  std::vector<int32_t> super_of;  // [blocks] the column of each
  bool divides = false;

  int64_t super_bytes(int64_t panel_rows) const { return columns * panel_rows * 4; }
};

// The second level stays where its entries cover whole groups of one row or whole rows; others, which no
// known checkpoint has, are multiplied into a float per block and row.
ScalePlan plan_scales(const ScaleView& scales, const WeightView& weight, const BlockPlan& blocks);

// Entry `index` of the first level, as the plan has it.
void write_scale(const ScalePlan& plan, const ScaleView& scales, int64_t index, std::byte* target);

// The second level of a row whose first entry is `index`: floats `stride` apart.
void write_super(const ScalePlan& plan, const ScaleView& scales, int64_t index, float* target,
                 int64_t stride);

}  // namespace quaver::kernels
