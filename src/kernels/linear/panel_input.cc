#include "kernels/linear/panel_input.h"

#include <algorithm>

#include "kernels/parallel.h"

namespace quaver::kernels {
namespace {

size_t rounded_up(int64_t bytes) { return static_cast<size_t>((bytes + 63) / 64 * 64); }

PanelInput divide(std::byte* workspace, int64_t m, const BlockPlan& plan, bool quantized) {
  PanelInput x;
  if (!quantized) {
    x.values = reinterpret_cast<float*>(workspace);
    return x;
  }
  auto blocks = static_cast<int64_t>(plan.blocks.size());
  x.codes = reinterpret_cast<int8_t*>(workspace);
  workspace += rounded_up(m * plan.padded_k);
  x.scales = reinterpret_cast<float*>(workspace);
  x.sums = reinterpret_cast<int32_t*>(workspace + rounded_up(m * blocks * 4));
  return x;
}

const float* in_order(const BlockPlan& plan, const float* row) {
  if (plan.takes_x_as_it_is()) return row;
  thread_local std::vector<float> sorted;
  sorted.resize(static_cast<size_t>(plan.k));
  for (size_t i = 0; i < sorted.size(); ++i) {
    const size_t channel = plan.order.empty() ? i : static_cast<size_t>(plan.order[i]);
    sorted[i] = plan.multiplier.empty() ? row[channel] : row[channel] * plan.multiplier[channel];
  }
  return sorted.data();
}

void prepare_row(const BlockPlan& plan, QuantizeBlock quantize, const float* source, const PanelInput& x,
                 int64_t row) {
  source = in_order(plan, source);
  auto blocks = static_cast<int64_t>(plan.blocks.size());
  for (int64_t b = 0; b < blocks; ++b) {
    const ChannelBlock& block = plan.blocks[static_cast<size_t>(b)];
    int64_t target = row * plan.padded_k + block.padded_begin;
    int64_t padding = 8 * block.steps() - block.length;
    if (quantize == nullptr) {
      std::copy_n(source + block.begin, block.length, x.values + target);
      std::fill_n(x.values + target + block.length, padding, 0.0f);
      continue;
    }
    QuantizedBlock result = quantize(source + block.begin, block.length, x.codes + target);
    std::fill_n(x.codes + target + block.length, padding, int8_t{0});
    x.scales[row * blocks + b] = result.scale;
    x.sums[row * blocks + b] = result.sum;
  }
}

}  // namespace

void PanelInput::give(CodePanel& panel, int64_t row) const {
  panel.x8 = codes ? codes + row * panel.padded_k : nullptr;
  panel.x_scales = scales ? scales + row * panel.blocks : nullptr;
  panel.x_sums = sums ? sums + row * panel.blocks : nullptr;
  panel.x = values ? values + row * panel.padded_k : nullptr;
}

size_t panel_input_bytes(const LinearProblem& problem, int64_t m, bool quantized) {
  BlockBounds bounds = bound_blocks(problem);
  if (!quantized) return rounded_up(m * bounds.padded_k * 4);
  return rounded_up(m * bounds.padded_k) + 2 * rounded_up(m * bounds.blocks * 4);
}

PanelInput prepare_input(const BlockPlan& plan, const LinearInput& input, QuantizeBlock quantize) {
  PanelInput x = divide(input.workspace, input.m, plan, quantize != nullptr);
  parallel_rows(input.pool, input.m, row_grain(plan.k), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) prepare_row(plan, quantize, input.x + r * input.x_stride, x, r);
  });
  return x;
}

}  // namespace quaver::kernels
