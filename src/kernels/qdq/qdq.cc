#include "kernels/qdq/qdq.h"

#include "kernels/isa.h"
#include "kernels/parallel.h"
#include "kernels/qdq/qdq_row.h"

namespace quaver::kernels {
namespace {

template <class T>
T* row_of(T* base, int64_t elements) {
  return base ? base + elements : nullptr;
}

void* bytes_of(void* base, DType dtype, int64_t elements) {
  return row_of(static_cast<char*>(base), elements * dtype_info(dtype).block_bytes);
}
const void* bytes_of(const void* base, DType dtype, int64_t elements) {
  return row_of(static_cast<const char*>(base), elements * dtype_info(dtype).block_bytes);
}

QdqRow make_row(const QdqArgs& args, int64_t r) {
  int64_t groups = (args.cols + args.scheme.group - 1) / args.scheme.group;
  return {.bits = args.scheme.bits,
          .symmetric = args.scheme.symmetric,
          .zero_from_one = args.scheme.zero_from_one,
          .range_limit = args.scheme.range_limit,
          .group = args.scheme.group,
          .cols = args.cols,
          .w = bytes_of(args.w, args.w_dtype, r * args.cols),
          .w_bf16 = args.w_dtype == DType::kBF16,
          .v = bytes_of(args.v, args.v_dtype, r * args.cols),
          .v_bf16 = args.v_dtype == DType::kBF16,
          .alpha = row_of(args.alpha, r * groups),
          .beta = row_of(args.beta, r * groups)};
}

}  // namespace

void qdq_forward(const QdqArgs& args, const QdqOutput& out, const CpuFeatures& cpu) {
  auto* run_row = pick_isa(cpu, qdq_forward_row_scalar, qdq_forward_row_avx2, qdq_forward_row_avx512);
  int64_t groups = (args.cols + args.scheme.group - 1) / args.scheme.group;
  parallel_rows(args.pool, args.rows, row_grain(args.cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      QdqRow row = make_row(args, r);
      row.w_hat = bytes_of(out.w_hat, out.dtype, r * args.cols);
      row.w_hat_bf16 = out.dtype == DType::kBF16;
      row.scale = row_of(out.scale, r * groups);
      row.zero = row_of(out.zero, r * groups);
      row.codes = row_of(out.codes, r * args.cols);
      run_row(row);
    }
  });
}

void qdq_backward(const QdqArgs& args, const QdqGradient& gradient, const CpuFeatures& cpu) {
  auto* run_row = pick_isa(cpu, qdq_backward_row_scalar, qdq_backward_row_avx2, qdq_backward_row_avx512);
  int64_t groups = (args.cols + args.scheme.group - 1) / args.scheme.group;
  parallel_rows(args.pool, args.rows, row_grain(args.cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      QdqRow row = make_row(args, r);
      row.dw_hat = bytes_of(gradient.dw_hat, gradient.dtype, r * args.cols);
      row.dw_hat_bf16 = gradient.dtype == DType::kBF16;
      row.dv = row_of(gradient.dv, r * args.cols);
      row.dalpha = row_of(gradient.dalpha, r * groups);
      row.dbeta = row_of(gradient.dbeta, r * groups);
      row.v_rate = gradient.v_rate;
      row.range_rate = gradient.range_rate;
      run_row(row);
    }
  });
}

}  // namespace quaver::kernels
