// LinearGroup: layers over one input as one multiplication.
#include <algorithm>

#include "nn/kernel_path.h"
#include "nn/linear_impl.h"
#include "nn/low_rank.h"

namespace quaver::nn {

bool LinearGroup::share_input() const {
  const InputQuant& first = layers_.front()->impl_->input;
  return std::all_of(layers_.begin(), layers_.end(),
                     [&](const Linear* layer) { return layer->impl_->input.agrees_with(first); });
}

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
  if (!share_input()) {
    std::vector<at::Tensor> results;
    for (const Linear* layer : layers_) results.push_back(layer->forward(x));
    return results;
  }
  std::vector<at::Tensor> results = multiply(layers_.front()->impl_->input.apply(x));
  for (size_t i = 0; i < layers_.size(); ++i) {
    add_low_rank(layers_[i]->impl_->low_rank, x, results[i]);
    results[i] = brought_together(layers_[i]->impl_->shard, results[i]);
  }
  return results;
}

// Of an input that is quantized already, where it is to be.
std::vector<at::Tensor> LinearGroup::multiply(const at::Tensor& input) const {
  if (share_kernel(input)) {
    std::vector<KernelWeight::Part> parts;
    for (const Linear* layer : layers_)
      parts.push_back({layer->impl_->kernel_weight(), layer->impl_->kernel_bias});
    return KernelWeight::run(parts, input);
  }
  std::vector<at::Tensor> results;
  for (const Linear* layer : layers_) results.push_back(layer->impl_->multiply(input));
  return results;
}

void LinearGroup::prepare() const {
  for (const Linear* layer : layers_) layer->prepare();
}

}  // namespace quaver::nn
