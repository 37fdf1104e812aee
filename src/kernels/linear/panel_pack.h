// Lays out a quantized weight in panels (layout: panels.h).
#pragma once

#include <memory>

#include "base/buffer.h"
#include "kernels/linear/channel_blocks.h"
#include "kernels/linear/code_form.h"
#include "kernels/linear/panel_scales.h"
#include "kernels/linear/panels.h"

namespace quaver::kernels {

struct CodeWeight : Prepacked {
  CodeForm form;
  BlockPlan plan;
  ScalePlan scales, mins;
  int64_t panel_rows = 0;
  bool has_zeros = false;
  // Within a panel, behind its blocks.
  int64_t scale_super_offset = 0, min_super_offset = 0, zeros_offset = 0;
  int64_t panel_bytes = 0;
  Buffer data;  // [panels, panel_bytes]
  size_t size_bytes() const override { return data.size_bytes(); }

  int64_t num_blocks() const { return static_cast<int64_t>(plan.blocks.size()); }
  int64_t scale_bytes() const { return (scales.bytes + mins.bytes) * panel_rows; }  // of one block
  int64_t step_bytes() const { return panel_rows * form.bits; }                     // of 8 channels
  // Fills in what differs from panel to panel and comes from the weight.
  CodePanel panel(int64_t index) const;
};

std::unique_ptr<CodeWeight> pack_panels(const WeightView& view, int64_t panel_rows);

}  // namespace quaver::kernels
