#include "kernels/linear/panel_pack.h"

#include <cstring>

#include "kernels/linear/codes.h"
#include "kernels/linear/weight_memory.h"

namespace quaver::kernels {
namespace {

// The four 2-bit codes in the low byte of `codes`, one per byte.
uint32_t spread_pairs(uint32_t codes) {
  codes = (codes | codes << 12) & 0x000f000fu;
  return (codes | codes << 6) & 0x03030303u;
}

// The four 4-bit codes in the low half of `codes`, one per byte.
uint32_t spread_nibbles(uint32_t codes) {
  codes = (codes | codes << 8) & 0x00ff00ffu;
  return (codes | codes << 4) & 0x0f0f0f0fu;
}

// Where the code of one row and channel stands in the codes of its 8 channels.
struct CodePlace {
  int64_t byte;
  int shift;
};

CodePlace place_of(const CodeWeight& weight, int64_t lane, int64_t channel) {
  const int64_t second = channel / 4 % 2, half = weight.panel_rows / 2;
  if (weight.form.bits == 2)
    return {lane % half * 4 + channel % 4, static_cast<int>(2 * second + 4 * (lane / half))};
  if (weight.form.bits == 4) return {lane * 4 + channel % 4, static_cast<int>(4 * second)};
  return {(second * weight.panel_rows + lane) * 4 + channel % 4, 0};
}

// Eight whole channels at once, for codes that are stored as wide as they are packed: as words of four bytes.
void spread_step(const std::byte* source, int bits, uint32_t (&words)[2]) {
  std::memcpy(words, source, static_cast<size_t>(bits));
  if (bits == 8) return;
  const uint32_t both = words[0];
  words[0] = bits == 2 ? spread_pairs(both & 0xffu) : spread_nibbles(both & 0xffffu);
  words[1] = bits == 2 ? spread_pairs(both >> 8) : spread_nibbles(both >> 16);
}

void add_word(std::byte* target, uint32_t word) {
  uint32_t present;
  std::memcpy(&present, target, 4);
  present |= word;
  std::memcpy(target, &present, 4);
}

struct SourceRow {
  const std::byte* codes;
  int64_t bytes;
  int bits;
};

int32_t channel_at(const CodeWeight& weight, int32_t sorted) {
  return weight.plan.order.empty() ? sorted : weight.plan.order[static_cast<size_t>(sorted)];
}

// Eights of channels that lie in words of the source; returns how many channels.
int32_t pack_steps(const CodeWeight& weight, const ChannelBlock& block, const SourceRow& source, int64_t lane,
                   std::byte* target) {
  int32_t i = 0;
  if (!weight.plan.order.empty() || source.bits != weight.form.bits || block.begin * source.bits % 8 != 0)
    return i;
  const CodePlace first = place_of(weight, lane, 0), second = place_of(weight, lane, 4);
  for (; i + 8 <= block.length; i += 8, target += weight.step_bytes()) {
    uint32_t words[2] = {};
    spread_step(source.codes + (block.begin + i) * source.bits / 8, source.bits, words);
    add_word(target + first.byte, words[0] << first.shift);
    add_word(target + second.byte, words[1] << second.shift);
  }
  return i;
}

void pack_words(const CodeWeight& weight, const ChannelBlock& block, const SourceRow& source, int64_t lane,
                std::byte* target) {
  for (int32_t i = pack_steps(weight, block, source, lane, target); i < block.length; ++i) {
    uint8_t code = read_code(source.codes, source.bytes, channel_at(weight, block.begin + i), source.bits);
    CodePlace place = place_of(weight, lane, i);
    target[i / 8 * weight.step_bytes() + place.byte] |= static_cast<std::byte>(code << place.shift);
  }
}

void pack_halves(const CodeWeight& weight, const ChannelBlock& block, const SourceRow& source, int64_t lane,
                 std::byte* target) {
  for (int32_t i = 0; i < block.length; ++i) {
    int32_t channel = channel_at(weight, block.begin + i);
    uint8_t code = source.bits == 8 ? static_cast<uint8_t>(source.codes[channel])
                                    : read_code(source.codes, source.bytes, channel, source.bits);
    target[i / 2 * (2 * weight.panel_rows) + lane * 2 + i % 2] =
        static_cast<std::byte>(weight.form.recoded[code]);
  }
}

void pack_row(const WeightView& view, const CodeWeight& weight, int64_t row, std::byte* panel) {
  const int bits = element_info(view.problem.element).bits;
  const int64_t row_bytes = code_row_bytes(view.problem.k, bits), lane = row % weight.panel_rows;
  const SourceRow source = {view.codes.data() + row * row_bytes, row_bytes, bits};
  std::byte* target = panel;
  for (int64_t b = 0; b < weight.num_blocks(); ++b) {
    const ChannelBlock& block = weight.plan.blocks[static_cast<size_t>(b)];
    const int64_t index = view.scale_index(row, block.group);
    write_scale(weight.scales, view.scales, index, target + lane * weight.scales.bytes);
    if (view.problem.has_mins)
      write_scale(weight.mins, view.mins, index,
                  target + weight.panel_rows * weight.scales.bytes + lane * weight.mins.bytes);
    if (view.zeros)
      panel[weight.zeros_offset + b * weight.panel_rows + lane] = static_cast<std::byte>(view.zeros[index]);
    target += weight.scale_bytes();
    (weight.form.half_shift != 0 ? pack_halves : pack_words)(weight, block, source, lane, target);
    target += block.steps() * weight.step_bytes();
  }
  const int64_t first = view.scale_index(row, 0);
  const auto floats = [&](int64_t offset) { return reinterpret_cast<float*>(panel + offset) + lane; };
  write_super(weight.scales, view.scales, first, floats(weight.scale_super_offset), weight.panel_rows);
  write_super(weight.mins, view.mins, first, floats(weight.min_super_offset), weight.panel_rows);
}

int64_t whole_lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Where the parts of a panel begin.
void lay_out(CodeWeight& weight) {
  const int64_t blocks = weight.num_blocks(), rows = weight.panel_rows;
  weight.scale_super_offset =
      whole_lines(blocks * weight.scale_bytes() + weight.plan.padded_k / 8 * weight.step_bytes());
  weight.min_super_offset = weight.scale_super_offset + weight.scales.super_bytes(rows);
  weight.zeros_offset = weight.min_super_offset + weight.mins.super_bytes(rows);
  weight.panel_bytes = whole_lines(weight.zeros_offset + (weight.has_zeros ? blocks * rows : 0));
}

PanelScales scales_of(const ScalePlan& plan, const uint8_t* super) {
  return {.codec = plan.codec,
          .bytes = plan.bytes,
          .super = plan.columns == 0 ? nullptr : reinterpret_cast<const float*>(super),
          .super_of = plan.super_of.data(),
          .divides = plan.divides};
}

}  // namespace

CodePanel CodeWeight::panel(int64_t index) const {
  const uint8_t* begin = data.as<uint8_t>().data() + index * panel_bytes;
  return {.bits = form.bits,
          .weight = begin,
          .scales = scales_of(scales, begin + scale_super_offset),
          .mins = scales_of(mins, begin + min_super_offset),
          .zeros = has_zeros ? begin + zeros_offset : nullptr,
          .zero = form.zero,
          .values = form.values.data(),
          .half_shift = form.half_shift,
          .factor = form.factor,
          .block_steps = plan.steps.data(),
          .blocks = num_blocks(),
          .padded_k = plan.padded_k};
}

std::unique_ptr<CodeWeight> pack_panels(const WeightView& view, int64_t panel_rows) {
  const LinearProblem& p = view.problem;
  auto weight = std::make_unique<CodeWeight>();
  weight->form = code_form(p.element);
  if (p.has_mins) weight->form.zero = 0;
  weight->plan = plan_blocks(view);
  weight->scales = plan_scales(view.scales, view, weight->plan);
  weight->mins = plan_scales(view.mins, view, weight->plan);
  weight->panel_rows = panel_rows;
  weight->has_zeros = view.zeros != nullptr;
  lay_out(*weight);
  std::byte* target = nullptr;
  const int64_t panels = (p.n + panel_rows - 1) / panel_rows;
  weight->data = allocate_weight(static_cast<size_t>(panels * weight->panel_bytes), target);
  for (int64_t r = 0; r < p.n; ++r) pack_row(view, *weight, r, target + r / panel_rows * weight->panel_bytes);
  return weight;
}

}  // namespace quaver::kernels
