// Plain weights in panels: the rows plain_avx512 and plain_avx2 of the table.
#include "kernels/linear/panel_units.h"
#include "kernels/linear/panels.h"
#include "kernels/linear/rows.h"
#include "kernels/linear/weight_memory.h"

namespace quaver::kernels {
namespace {

struct PlainWeight : Prepacked {
  PlainElement element = PlainElement::kF32;
  int64_t panel_bytes = 0;
  Buffer data;  // [panels, k, panel_rows]; rows past n are zero
  size_t size_bytes() const override { return data.size_bytes(); }
};

struct Isa {
  int64_t panel_rows;
  void (*run)(const PlainPanel&);
};
constexpr Isa kAvx2 = {16, plain_panel_avx2}, kAvx512 = {32, plain_panel_avx512};

PlainElement plain_element(DType dtype) {
  if (dtype == DType::kF32) return PlainElement::kF32;
  return dtype == DType::kF16 ? PlainElement::kF16 : PlainElement::kBF16;
}

// Where row `row` of a panel stands among the panel_rows values of one channel.
int64_t place_of(PlainElement element, int64_t row, int64_t panel_rows) {
  if (element != PlainElement::kBF16) return row;
  int64_t half = panel_rows / 2;
  return row < half ? 2 * row : 2 * (row - half) + 1;
}

template <class T>
void interleave(const T* source, int64_t n, int64_t k, PlainElement element, int64_t panel_rows, T* target) {
  for (int64_t r = 0; r < n; ++r) {
    T* column = target + r / panel_rows * panel_rows * k + place_of(element, r % panel_rows, panel_rows);
    for (int64_t i = 0; i < k; ++i) column[i * panel_rows] = source[r * k + i];
  }
}

template <const Isa& isa>
std::unique_ptr<Prepacked> prepack(const WeightView& view) {
  const LinearProblem& p = view.problem;
  auto weight = std::make_unique<PlainWeight>();
  weight->element = plain_element(p.plain);
  weight->panel_bytes = isa.panel_rows * p.k * dtype_info(p.plain).block_bytes;
  auto size = static_cast<size_t>((p.n + isa.panel_rows - 1) / isa.panel_rows * weight->panel_bytes);
  std::byte* target = nullptr;
  weight->data = allocate_weight(size, target);
  if (p.plain == DType::kF32)
    interleave(reinterpret_cast<const float*>(view.codes.data()), p.n, p.k, weight->element, isa.panel_rows,
               reinterpret_cast<float*>(target));
  else
    interleave(reinterpret_cast<const uint16_t*>(view.codes.data()), p.n, p.k, weight->element,
               isa.panel_rows, reinterpret_cast<uint16_t*>(target));
  return weight;
}

template <const Isa& isa>
void run_parts(std::span<const LinearPart> parts, const LinearInput& input) {
  for_each_panel(parts, input, isa.panel_rows, [&](const PanelUnit& unit) {
    const auto& weight = static_cast<const PlainWeight&>(*unit.part->weight);
    int64_t first = unit.panel * isa.panel_rows;
    isa.run({.x = input.x + unit.first_row * input.x_stride,
             .x_stride = input.x_stride,
             .weight = weight.data.bytes().data() + unit.panel * weight.panel_bytes,
             .element = weight.element,
             .k = unit.part->problem->k,
             .y = unit.part->y + unit.first_row * unit.part->y_stride + first,
             .y_stride = unit.part->y_stride,
             .bias = unit.part->bias ? unit.part->bias + first : nullptr,
             .m = unit.rows,
             .valid = std::min(isa.panel_rows, unit.part->problem->n - first)});
  });
}

bool is_plain(const LinearProblem& p) {
  return !p.quantized && (p.plain == DType::kF32 || p.plain == DType::kBF16 || p.plain == DType::kF16);
}
bool supports_avx2(const LinearProblem& p, const CpuFeatures& cpu) { return cpu.avx2 && is_plain(p); }
bool supports_avx512(const LinearProblem& p, const CpuFeatures& cpu) { return cpu.avx512 && is_plain(p); }

size_t no_workspace(const LinearProblem&, int64_t) { return 0; }

}  // namespace

LinearKernel plain_avx2_row() {
  return {"plain_avx2", supports_avx2, prepack<kAvx2>, no_workspace, run_parts<kAvx2>};
}
LinearKernel plain_avx512_row() {
  return {"plain_avx512", supports_avx512, prepack<kAvx512>, no_workspace, run_parts<kAvx512>};
}

}  // namespace quaver::kernels
