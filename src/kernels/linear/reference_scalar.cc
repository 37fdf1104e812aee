// The scalar reference of every linear problem: exact products, summed in double.
#include <vector>

#include "kernels/linear/codes.h"
#include "kernels/linear/rows.h"
#include "kernels/parallel.h"
#include "numerics/half.h"

namespace quaver::kernels {
namespace {

struct ReferenceWeight : Prepacked {
  std::vector<float> dense;  // plain weights
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<uint8_t> zeros;
  std::vector<int32_t> group_of;  // [k]
  int64_t groups = 0;
  size_t size_bytes() const override {
    return dense.size() * 4 + codes.size() + scales.size() * 4 + zeros.size() + group_of.size() * 4;
  }
};

bool supports(const LinearProblem& p, const CpuFeatures&) {
  if (p.quantized) return element_info(p.element).integer && p.group >= 1;
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

void unpack_quantized(const WeightView& view, ReferenceWeight& out) {
  const LinearProblem& p = view.problem;
  int bits = element_info(p.element).bits;
  int64_t row_bytes = code_row_bytes(p.k, bits);
  out.groups = (p.k + p.group - 1) / p.group;
  out.codes.resize(static_cast<size_t>(p.n * p.k));
  for (int64_t r = 0; r < p.n; ++r)
    for (int64_t i = 0; i < p.k; ++i)
      out.codes[static_cast<size_t>(r * p.k + i)] =
          read_code(view.codes.data() + r * row_bytes, row_bytes, i, bits);
  out.scales.assign(view.scales, view.scales + p.n * out.groups);
  if (view.zeros != nullptr)
    out.zeros.assign(view.zeros, view.zeros + p.n * out.groups);
  else
    out.zeros.assign(static_cast<size_t>(p.n * out.groups), static_cast<uint8_t>(1 << (bits - 1)));
  for (int64_t i = 0; i < p.k; ++i)
    out.group_of.push_back(static_cast<int32_t>((view.permutation ? view.permutation[i] : i) / p.group));
}

std::unique_ptr<Prepacked> prepack(const WeightView& view) {
  auto weight = std::make_unique<ReferenceWeight>();
  if (view.problem.quantized)
    unpack_quantized(view, *weight);
  else
    unpack_plain(view, *weight);
  return weight;
}

size_t workspace_bytes(const LinearProblem&, int64_t) { return 0; }

double dot_plain(const ReferenceWeight& w, const float* x, int64_t row, int64_t k) {
  double sum = 0;
  for (int64_t i = 0; i < k; ++i)
    sum += static_cast<double>(x[i]) * w.dense[static_cast<size_t>(row * k + i)];
  return sum;
}

double dot_quantized(const ReferenceWeight& w, const float* x, int64_t row, int64_t k) {
  double sum = 0;
  for (int64_t i = 0; i < k; ++i) {
    auto g = static_cast<size_t>(row * w.groups + w.group_of[static_cast<size_t>(i)]);
    int steps = w.codes[static_cast<size_t>(row * k + i)] - w.zeros[g];
    sum += static_cast<double>(x[i]) * (static_cast<double>(w.scales[g]) * steps);
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
          double sum = dot(weight, input.x + r * input.x_stride, j, p.k);
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
