// Integer weights in panels: the rows int_a8_* and int_a32_* of the table.
#include <cstring>

#include "kernels/linear/codes.h"
#include "kernels/linear/integer_blocks.h"
#include "kernels/linear/panel_units.h"
#include "kernels/linear/panels.h"
#include "kernels/linear/rows.h"
#include "kernels/linear/weight_memory.h"

namespace quaver::kernels {
namespace {

struct IntegerWeight : Prepacked {
  BlockPlan plan;
  int bits = 4;  // of the packed codes: 2- and 3-bit codes widen to 4, 5- to 7-bit ones to 8
  int32_t zero = 0;
  bool has_zeros = false;
  int64_t zeros_offset = 0;  // within a panel
  int64_t panel_bytes = 0;
  Buffer data;  // [panels, panel_bytes]
  size_t size_bytes() const override { return data.size_bytes(); }
};

struct Isa {
  int64_t panel_rows;
  void (*run)(const IntegerPanel&);
  QuantizedBlock (*quantize)(const float*, int64_t, int8_t*);  // null: activations stay float
};
constexpr Isa kA8Avx2 = {16, integer_panel_a8_avx2, quantize_block_avx2};
constexpr Isa kA8Avx512 = {32, integer_panel_a8_avx512, quantize_block_avx512};
constexpr Isa kA8Vnni = {32, integer_panel_a8_vnni, quantize_block_avx512};
constexpr Isa kA32Avx2 = {16, integer_panel_a32_avx2, nullptr};
constexpr Isa kA32Avx512 = {32, integer_panel_a32_avx512, nullptr};

const IntegerWeight& weight_of(const LinearPart& part) {
  return static_cast<const IntegerWeight&>(*part.weight);
}

// Where a panel's parts are (layout: panels.h).
struct PanelLayout {
  int bits;
  int64_t panel_rows;

  int64_t step_bytes() const { return panel_rows * bits; }
  int64_t block_offset(const ChannelBlock& block, size_t index) const {
    return static_cast<int64_t>(index) * panel_rows * 4 + block.padded_begin / 8 * step_bytes();
  }
  // Byte, within a block's codes, of the code of row `row` at channel `channel` of the block.
  int64_t code_offset(int64_t row, int64_t channel) const {
    int64_t within = channel % 8, second = bits == 8 ? within / 4 : 0;
    return channel / 8 * step_bytes() + (second * panel_rows + row) * 4 + within % 4;
  }
  int code_shift(int64_t channel) const { return bits == 4 && channel % 8 >= 4 ? 4 : 0; }
};

// The four 4-bit codes in the low half of `codes`, one per byte.
uint32_t spread_nibbles(uint32_t codes) {
  codes = (codes | codes << 8) & 0x00ff00ffu;
  return (codes | codes << 4) & 0x0f0f0f0fu;
}

// Eight whole channels at once, for codes that are stored as wide as they are packed.
void pack_step(const PanelLayout& layout, const std::byte* source, std::byte* step, int64_t lane) {
  std::byte* target = step + lane * 4;
  uint32_t words[2];
  std::memcpy(words, source, static_cast<size_t>(layout.bits));
  if (layout.bits == 4) words[0] = spread_nibbles(words[0] & 0xffffu) | spread_nibbles(words[0] >> 16) << 4;
  std::memcpy(target, words, 4);
  if (layout.bits == 8) std::memcpy(target + layout.panel_rows * 4, words + 1, 4);
}

struct SourceRow {
  const std::byte* codes;
  int64_t bytes;
  int bits;
};

void pack_block(const BlockPlan& plan, const ChannelBlock& block, const PanelLayout& layout,
                const SourceRow& source, int64_t lane, std::byte* target) {
  int32_t i = 0;
  if (plan.order.empty() && source.bits == layout.bits && block.begin % 2 == 0)
    for (; i + 8 <= block.length; i += 8)
      pack_step(layout, source.codes + (block.begin + i) * source.bits / 8,
                target + i / 8 * layout.step_bytes(), lane);
  for (; i < block.length; ++i) {
    int32_t sorted = block.begin + i;
    int32_t channel = plan.order.empty() ? sorted : plan.order[static_cast<size_t>(sorted)];
    uint8_t code = read_code(source.codes, source.bytes, channel, source.bits);
    target[layout.code_offset(lane, i)] |= static_cast<std::byte>(code << layout.code_shift(i));
  }
}

void pack_row(const WeightView& view, const IntegerWeight& weight, int64_t panel_rows, int64_t row,
              std::byte* panel) {
  PanelLayout layout = {weight.bits, panel_rows};
  int bits = element_info(view.problem.element).bits;
  int64_t row_bytes = code_row_bytes(view.problem.k, bits), lane = row % panel_rows;
  int64_t groups = (view.problem.k + view.problem.group - 1) / view.problem.group;
  SourceRow source = {view.codes.data() + row * row_bytes, row_bytes, bits};
  for (size_t b = 0; b < weight.plan.blocks.size(); ++b) {
    const ChannelBlock& block = weight.plan.blocks[b];
    std::byte* target = panel + layout.block_offset(block, b);
    reinterpret_cast<float*>(target)[lane] = view.scales[row * groups + block.group];
    if (view.zeros)
      panel[weight.zeros_offset + static_cast<int64_t>(b) * panel_rows + lane] =
          static_cast<std::byte>(view.zeros[row * groups + block.group]);
    pack_block(weight.plan, block, layout, source, lane, target + panel_rows * 4);
  }
}

template <const Isa& isa>
std::unique_ptr<Prepacked> prepack(const WeightView& view) {
  const LinearProblem& p = view.problem;
  int bits = element_info(p.element).bits;
  auto weight = std::make_unique<IntegerWeight>();
  weight->plan = plan_blocks(p, view.permutation);
  weight->bits = bits <= 4 ? 4 : 8;
  weight->zero = 1 << (bits - 1);
  weight->has_zeros = view.zeros != nullptr;
  auto blocks = static_cast<int64_t>(weight->plan.blocks.size());
  weight->zeros_offset = isa.panel_rows * (blocks * 4 + weight->plan.padded_k * weight->bits / 8);
  weight->panel_bytes =
      weight->zeros_offset + (weight->has_zeros ? (blocks * isa.panel_rows + 63) / 64 * 64 : 0);
  std::byte* target = nullptr;
  weight->data = allocate_weight(
      static_cast<size_t>((p.n + isa.panel_rows - 1) / isa.panel_rows * weight->panel_bytes), target);
  for (int64_t r = 0; r < p.n; ++r)
    pack_row(view, *weight, isa.panel_rows, r, target + r / isa.panel_rows * weight->panel_bytes);
  return weight;
}

size_t rounded_up(int64_t bytes) { return static_cast<size_t>((bytes + 63) / 64 * 64); }

template <const Isa& isa>
size_t workspace_bytes(const LinearProblem& problem, int64_t m) {
  BlockBounds bounds = bound_blocks(problem);
  if (isa.quantize == nullptr) return rounded_up(m * bounds.padded_k * 4);
  return rounded_up(m * bounds.padded_k) + 2 * rounded_up(m * bounds.blocks * 4);
}

// x in the block order of one plan, in the caller's workspace.
struct PreparedX {
  int8_t* codes = nullptr;  // [m, padded_k]
  float* scales = nullptr;  // [m, blocks]
  int32_t* sums = nullptr;  // [m, blocks]
  float* values = nullptr;  // [m, padded_k]
};

PreparedX lay_out(std::byte* workspace, int64_t m, const BlockPlan& plan, bool quantized) {
  PreparedX x;
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
  if (plan.order.empty()) return row;
  thread_local std::vector<float> sorted;
  sorted.resize(plan.order.size());
  for (size_t i = 0; i < sorted.size(); ++i) sorted[i] = row[plan.order[i]];
  return sorted.data();
}

void prepare_row(const BlockPlan& plan, const Isa& isa, const float* source, const PreparedX& x,
                 int64_t row) {
  source = in_order(plan, source);
  auto blocks = static_cast<int64_t>(plan.blocks.size());
  for (int64_t b = 0; b < blocks; ++b) {
    const ChannelBlock& block = plan.blocks[static_cast<size_t>(b)];
    int64_t target = row * plan.padded_k + block.padded_begin;
    int64_t padding = 8 * block.steps() - block.length;
    if (isa.quantize == nullptr) {
      std::copy_n(source + block.begin, block.length, x.values + target);
      std::fill_n(x.values + target + block.length, padding, 0.0f);
      continue;
    }
    QuantizedBlock result = isa.quantize(source + block.begin, block.length, x.codes + target);
    std::fill_n(x.codes + target + block.length, padding, int8_t{0});
    x.scales[row * blocks + b] = result.scale;
    x.sums[row * blocks + b] = result.sum;
  }
}

template <const Isa& isa>
void run_alike(std::span<const LinearPart> parts, const LinearInput& input) {
  const BlockPlan& plan = weight_of(parts[0]).plan;
  auto blocks = static_cast<int64_t>(plan.blocks.size());
  PreparedX x = lay_out(input.workspace, input.m, plan, isa.quantize != nullptr);
  parallel_rows(input.pool, input.m, row_grain(plan.k), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) prepare_row(plan, isa, input.x + r * input.x_stride, x, r);
  });
  for_each_panel(parts, input, isa.panel_rows, [&](const PanelUnit& unit) {
    const IntegerWeight& weight = weight_of(*unit.part);
    int64_t first = unit.panel * isa.panel_rows, row = unit.first_row;
    const uint8_t* panel = weight.data.as<uint8_t>().data() + unit.panel * weight.panel_bytes;
    isa.run({.bits = weight.bits,
             .weight = panel,
             .zeros = weight.has_zeros ? panel + weight.zeros_offset : nullptr,
             .zero = weight.zero,
             .block_steps = weight.plan.steps.data(),
             .blocks = blocks,
             .x8 = x.codes ? x.codes + row * plan.padded_k : nullptr,
             .x_scales = x.scales ? x.scales + row * blocks : nullptr,
             .x_sums = x.sums ? x.sums + row * blocks : nullptr,
             .x = x.values ? x.values + row * plan.padded_k : nullptr,
             .padded_k = plan.padded_k,
             .y = unit.part->y + row * unit.part->y_stride + first,
             .y_stride = unit.part->y_stride,
             .bias = unit.part->bias ? unit.part->bias + first : nullptr,
             .m = unit.rows,
             .valid = std::min(isa.panel_rows, unit.part->problem->n - first)});
  });
}

template <const Isa& isa>
void run_parts(std::span<const LinearPart> parts, const LinearInput& input) {
  while (!parts.empty()) {
    size_t alike = 1;
    while (alike < parts.size() && weight_of(parts[0]).plan.prepares_like(weight_of(parts[alike]).plan))
      ++alike;
    run_alike<isa>(parts.first(alike), input);
    parts = parts.subspan(alike);
  }
}

bool is_integer(const LinearProblem& p) {
  return p.quantized && element_info(p.element).integer && p.group >= 1;
}

template <bool CpuFeatures::*needed, const Isa& isa>
bool supports(const LinearProblem& p, const CpuFeatures& cpu) {
  return cpu.*needed && is_integer(p) && (isa.quantize == nullptr || !p.exact_activations);
}

template <bool CpuFeatures::*needed, const Isa& isa>
LinearKernel row(const char* name) {
  return {name, supports<needed, isa>, prepack<isa>, workspace_bytes<isa>, run_parts<isa>};
}

}  // namespace

LinearKernel int_a8_vnni_row() { return row<&CpuFeatures::avx512_vnni, kA8Vnni>("int_a8_vnni"); }
LinearKernel int_a8_avx512_row() { return row<&CpuFeatures::avx512, kA8Avx512>("int_a8_avx512"); }
LinearKernel int_a8_avx2_row() { return row<&CpuFeatures::avx2, kA8Avx2>("int_a8_avx2"); }
LinearKernel int_a32_avx512_row() { return row<&CpuFeatures::avx512, kA32Avx512>("int_a32_avx512"); }
LinearKernel int_a32_avx2_row() { return row<&CpuFeatures::avx2, kA32Avx2>("int_a32_avx2"); }

}  // namespace quaver::kernels
