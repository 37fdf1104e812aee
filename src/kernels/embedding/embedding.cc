#include "kernels/embedding/embedding.h"

#include <cstring>

#include "kernels/linear/codes.h"
#include "kernels/parallel.h"
#include "numerics/half.h"

namespace quaver::kernels {
namespace {

template <class Load>
void fill(float* y, int64_t k, float multiplier, const Load& load) {
  for (int64_t i = 0; i < k; ++i) y[i] = load(i) * multiplier;
}

void plain_row(const WeightView& table, int64_t id, float multiplier, float* y) {
  int64_t k = table.problem.k;
  if (table.problem.plain == DType::kF32) {
    const auto* row = reinterpret_cast<const float*>(table.codes.data()) + id * k;
    return fill(y, k, multiplier, [row](int64_t i) { return row[i]; });
  }
  const auto* row = reinterpret_cast<const uint16_t*>(table.codes.data()) + id * k;
  if (table.problem.plain == DType::kBF16)
    return fill(y, k, multiplier, [row](int64_t i) { return bf16_to_float(row[i]); });
  fill(y, k, multiplier, [row](int64_t i) { return f16_to_float(row[i]); });
}

void quantized_row(const WeightView& table, int64_t id, float multiplier, float* y) {
  const LinearProblem& p = table.problem;
  int bits = element_info(p.element).bits;
  int64_t row_bytes = code_row_bytes(p.k, bits);
  const std::byte* codes = table.codes.data() + id * row_bytes;
  fill(y, p.k, multiplier, [&](int64_t i) {
    int64_t g = table.scale_index(id, (table.permutation ? table.permutation[i] : i) / p.group);
    int zero = table.zeros ? table.zeros[g] : 1 << (bits - 1);
    return table.scales.at(g) * static_cast<float>(read_code(codes, row_bytes, i, bits) - zero);
  });
}

}  // namespace

void gather_rows(const EmbeddingArgs& args) {
  auto count = static_cast<int64_t>(args.ids.size());
  parallel_rows(args.pool, count, row_grain(args.table.problem.k), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      (args.table.problem.quantized ? quantized_row : plain_row)(args.table, args.ids[static_cast<size_t>(t)],
                                                                 args.multiplier, args.y + t * args.y_stride);
  });
}

}  // namespace quaver::kernels
