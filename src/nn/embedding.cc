#include "nn/embedding.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "base/thread_pool.h"
#include "kernels/embedding/embedding.h"
#include "nn/kernel_path.h"
#include "nn/tensor_bridge.h"

namespace quaver::nn {

namespace {

at::Tensor lookup_kernel(const at::Tensor& table, const at::Tensor& token_ids) {
  at::Tensor ids = token_ids.to(at::kInt).contiguous();
  at::Tensor y = at::empty({ids.numel(), table.size(1)}, at::TensorOptions().dtype(at::kFloat));
  kernels::LinearProblem problem{
      .n = table.size(0), .k = table.size(1), .plain = dtype_of(table.scalar_type())};
  std::span<const std::byte> bytes(static_cast<const std::byte*>(table.data_ptr()), table.nbytes());
  kernels::gather_rows({.table = {.problem = problem, .codes = bytes},
                        .ids = {ids.const_data_ptr<int32_t>(), static_cast<size_t>(ids.numel())},
                        .y = y.mutable_data_ptr<float>(),
                        .y_stride = table.size(1),
                        .pool = &global_thread_pool()});
  return y;
}

bool kernel_takes(const at::Tensor& table, at::ScalarType compute_dtype) {
  bool wanted = c10::GradMode::is_enabled() && table.requires_grad();
  return table.is_cpu() && compute_dtype == at::kFloat && table.is_contiguous() && !wanted &&
         kernels_allowed();
}

}  // namespace

at::Tensor embedding(const at::Tensor& table, const at::Tensor& token_ids, at::ScalarType compute_dtype) {
  if (kernel_takes(table, compute_dtype)) return lookup_kernel(table, token_ids);
  return at::embedding(table, token_ids).to(compute_dtype);
}

}  // namespace quaver::nn
