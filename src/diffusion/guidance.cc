#include "diffusion/guidance.h"

#include <ATen/TensorOperators.h>

namespace quaver::diffusion {

at::Tensor guided(const Guidance& guidance, const at::Tensor& positive, const at::Tensor& negative) {
  const at::Tensor base = negative.to(at::kFloat);
  return base + guidance.scale * (positive.to(at::kFloat) - base);
}

}  // namespace quaver::diffusion
