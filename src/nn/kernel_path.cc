#include "nn/kernel_path.h"

#include <c10/core/GradMode.h>

namespace quaver::nn {

namespace {
thread_local int aten_only_depth = 0;
}

bool kernels_allowed() { return aten_only_depth == 0; }

bool kernels_apply(const at::Tensor& x, std::initializer_list<const at::Tensor*> weights) {
  if (!kernels_allowed() || !x.is_cpu() || x.scalar_type() != at::kFloat) return false;
  if (!c10::GradMode::is_enabled()) return true;
  for (const at::Tensor* weight : weights)
    if (weight->defined() && weight->requires_grad()) return false;
  return !x.requires_grad();
}

bool bf16_kernels_apply(const at::Tensor& x, std::initializer_list<const at::Tensor*> weights) {
  if (!kernels_allowed() || !x.is_cpu() || x.scalar_type() != at::kBFloat16) return false;
  if (!c10::GradMode::is_enabled()) return true;
  for (const at::Tensor* weight : weights)
    if (weight->defined() && weight->requires_grad()) return false;
  return true;
}

AtenOnly::AtenOnly() { ++aten_only_depth; }
AtenOnly::~AtenOnly() { --aten_only_depth; }

}  // namespace quaver::nn
