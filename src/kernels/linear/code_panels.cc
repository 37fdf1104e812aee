// Quantized weights in panels: the rows int_a8_*, int_a32_* and float_a32_* of the table.
#include "kernels/linear/panel_input.h"
#include "kernels/linear/panel_pack.h"
#include "kernels/linear/panel_units.h"
#include "kernels/linear/rows.h"

namespace quaver::kernels {
namespace {

struct Isa {
  bool integer;  // of the codes
  int64_t panel_rows;
  void (*run)(const CodePanel&);
  QuantizeBlock quantize;  // null: activations stay float
};
constexpr Isa kA8Avx2 = {true, 16, integer_panel_a8_avx2, quantize_block_avx2};
constexpr Isa kA8Avx512 = {true, 32, integer_panel_a8_avx512, quantize_block_avx512};
constexpr Isa kA8Vnni = {true, 32, integer_panel_a8_vnni, quantize_block_avx512};
constexpr Isa kA32Avx2 = {true, 16, integer_panel_a32_avx2, nullptr};
constexpr Isa kA32Avx512 = {true, 32, integer_panel_a32_avx512, nullptr};
constexpr Isa kFloatA32Avx2 = {false, 16, float_panel_a32_avx2, nullptr};
constexpr Isa kFloatA32Avx512 = {false, 32, float_panel_a32_avx512, nullptr};

const CodeWeight& weight_of(const LinearPart& part) { return static_cast<const CodeWeight&>(*part.weight); }

template <const Isa& isa>
std::unique_ptr<Prepacked> prepack(const WeightView& view) {
  return pack_panels(view, isa.panel_rows);
}

template <const Isa& isa>
size_t workspace_bytes(const LinearProblem& problem, int64_t m) {
  return panel_input_bytes(problem, m, isa.quantize != nullptr);
}

template <const Isa& isa>
void run_alike(std::span<const LinearPart> parts, const LinearInput& input) {
  const PanelInput x = prepare_input(weight_of(parts[0]).plan, input, isa.quantize);
  for_each_panel(parts, input, isa.panel_rows, [&](const PanelUnit& unit) {
    const LinearPart& part = *unit.part;
    int64_t first = unit.panel * isa.panel_rows;
    CodePanel panel = weight_of(part).panel(unit.panel);
    x.give(panel, unit.first_row);
    panel.y = part.y + unit.first_row * part.y_stride + first;
    panel.y_stride = part.y_stride;
    panel.bias = part.bias ? part.bias + first : nullptr;
    panel.m = unit.rows;
    panel.valid = std::min(isa.panel_rows, part.problem->n - first);
    isa.run(panel);
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

template <bool CpuFeatures::*needed, const Isa& isa>
bool supports(const LinearProblem& p, const CpuFeatures& cpu) {
  return cpu.*needed && p.quantized && element_info(p.element).integer == isa.integer && p.group >= 1 &&
         p.group_rows >= 1 && (isa.quantize == nullptr || !p.exact_activations);
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
LinearKernel float_a32_avx512_row() { return row<&CpuFeatures::avx512, kFloatA32Avx512>("float_a32_avx512"); }
LinearKernel float_a32_avx2_row() { return row<&CpuFeatures::avx2, kFloatA32Avx2>("float_a32_avx2"); }

}  // namespace quaver::kernels
