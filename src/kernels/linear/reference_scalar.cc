// The scalar reference of every linear problem: exact products, summed in double.
#include <vector>

#include "kernels/linear/codes.h"
#include "kernels/linear/rows.h"
#include "kernels/parallel.h"
#include "numerics/element_value.h"
#include "numerics/half.h"

namespace quaver::kernels {
namespace {

struct ReferenceWeight : Prepacked {
  std::vector<float> dense;  // plain weights
  std::vector<uint8_t> codes;
  std::vector<float> values;               // of every code
  std::vector<float> scales, zeros, mins;  // [rows of groups, groups]
  std::vector<int32_t> group_of;           // [k]
  std::vector<float> multiplier;           // [k] or empty
  int64_t groups = 0;
  size_t size_bytes() const override {
    size_t floats =
        dense.size() + values.size() + scales.size() + zeros.size() + mins.size() + multiplier.size();
    return floats * 4 + codes.size() + group_of.size() * 4;
  }
};

bool supports(const LinearProblem& p, const CpuFeatures&) {
  if (p.quantized) return p.group >= 1 && p.group_rows >= 1;
  return p.plain == DType::kF32 || p.plain == DType::kBF16 || p.plain == DType::kF16;
}

void unpack_plain(const WeightView& view, ReferenceWeight& out) {
  auto count = static_cast<size_t>(view.problem.n * view.problem.k);
  out.dense.resize(count);
  for (size_t i = 0; i < count; ++i) {
    if (view.problem.plain == DType::kF32)
      out.dense[i] = reinterpret_cast<const float*>(view.codes.data())[i];
    else if (view.problem.plain == DType::kBF16)
      out.dense[i] = bf16_to_float(reinterpret_cast<const uint16_t*>(view.codes.data())[i]);
    else
      out.dense[i] = f16_to_float(reinterpret_cast<const uint16_t*>(view.codes.data())[i]);
  }
}

void unpack_codes(const WeightView& view, ReferenceWeight& out) {
  const LinearProblem& p = view.problem;
  int bits = element_info(p.element).bits;
  int64_t row_bytes = code_row_bytes(p.k, bits);
  out.codes.resize(static_cast<size_t>(p.n * p.k));
  for (int64_t r = 0; r < p.n; ++r)
    for (int64_t i = 0; i < p.k; ++i)
      out.codes[static_cast<size_t>(r * p.k + i)] =
          read_code(view.codes.data() + r * row_bytes, row_bytes, i, bits);
  for (int code = 0; code < 1 << bits; ++code)
    out.values.push_back(element_value(p.element, static_cast<uint8_t>(code)));
}

void unpack_scales(const WeightView& view, ReferenceWeight& out) {
  const LinearProblem& p = view.problem;
  const ElementInfo& element = element_info(p.element);
  float middle = element.integer ? static_cast<float>(1 << (element.bits - 1)) : 0.0f;
  out.groups = view.groups();
  for (int64_t i = 0, count = (p.n + p.group_rows - 1) / p.group_rows * out.groups; i < count; ++i) {
    out.scales.push_back(view.scales.at(i));
    out.mins.push_back(p.has_mins ? view.mins.at(i) : 0.0f);
    out.zeros.push_back(p.has_mins ? 0.0f : view.zeros ? view.zeros[i] : middle);
  }
  for (int64_t i = 0; i < p.k; ++i)
    out.group_of.push_back(static_cast<int32_t>((view.permutation ? view.permutation[i] : i) / p.group));
  if (view.input_multiplier) out.multiplier.assign(view.input_multiplier, view.input_multiplier + p.k);
}

std::unique_ptr<Prepacked> prepack(const WeightView& view) {
  auto weight = std::make_unique<ReferenceWeight>();
  if (view.problem.quantized) {
    unpack_codes(view, *weight);
    unpack_scales(view, *weight);
  } else {
    unpack_plain(view, *weight);
  }
  return weight;
}

size_t workspace_bytes(const LinearProblem&, int64_t) { return 0; }

double dot_plain(const LinearProblem& p, const ReferenceWeight& w, const float* x, int64_t row) {
  double sum = 0;
  for (int64_t i = 0, k = p.k; i < k; ++i)
    sum += static_cast<double>(x[i]) * w.dense[static_cast<size_t>(row * k + i)];
  return sum;
}

double dot_quantized(const LinearProblem& p, const ReferenceWeight& w, const float* x, int64_t row) {
  double sum = 0;
  for (int64_t i = 0; i < p.k; ++i) {
    auto channel = static_cast<size_t>(i);
    auto g = static_cast<size_t>(row / p.group_rows * w.groups + w.group_of[channel]);
    double steps = static_cast<double>(w.values[w.codes[static_cast<size_t>(row * p.k + i)]]) - w.zeros[g];
    double multiplier = w.multiplier.empty() ? 1.0 : w.multiplier[channel];
    sum += multiplier * x[i] * (w.scales[g] * steps - w.mins[g]);
  }
  return sum;
}

void run_parts(std::span<const LinearPart> parts, const LinearInput& input) {
  for (const LinearPart& part : parts) {
    const LinearProblem& p = *part.problem;
    const auto& weight = static_cast<const ReferenceWeight&>(*part.weight);
    auto* dot = p.quantized ? dot_quantized : dot_plain;
    parallel_rows(input.pool, p.n, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = 0; r < input.m; ++r)
        for (int64_t j = begin; j < end; ++j) {
          double sum = dot(p, weight, input.x + r * input.x_stride, j);
          part.y[r * part.y_stride + j] = static_cast<float>(sum + (part.bias ? part.bias[j] : 0.0f));
        }
    });
  }
}

}  // namespace

LinearKernel reference_scalar_row() {
  return {"reference_scalar", supports, prepack, workspace_bytes, run_parts};
}

}  // namespace quaver::kernels
