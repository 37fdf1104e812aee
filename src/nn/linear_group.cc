// LinearGroup: layers over one input as one multiplication.
#include "nn/kernel_path.h"
#include "nn/linear_impl.h"

namespace quaver::nn {

bool LinearGroup::share_kernel(const at::Tensor& x) const {
  const kernels::LinearKernel* shared = nullptr;
  for (const Linear* layer : layers_) {
    if (!kernels_apply(x, {&layer->impl_->plain})) return false;
    const KernelWeight* weight = layer->impl_->kernel_weight();
    if (!weight || (shared && shared != &weight->kernel())) return false;
    shared = &weight->kernel();
  }
  return shared != nullptr;
}

std::vector<at::Tensor> LinearGroup::forward(const at::Tensor& x) const {
  if (share_kernel(x)) {
    std::vector<KernelWeight::Part> parts;
    for (const Linear* layer : layers_)
      parts.push_back({layer->impl_->kernel_weight(), layer->impl_->kernel_bias});
    return KernelWeight::run(parts, x);
  }
  std::vector<at::Tensor> results;
  for (const Linear* layer : layers_) results.push_back(layer->forward(x));
  return results;
}

void LinearGroup::prepare() const {
  for (const Linear* layer : layers_) layer->prepare();
}

}  // namespace quaver::nn
