// Shows the tensors that a linear layer's weight lies in.
#include "nn/linear_impl.h"

namespace quaver::nn {

void Linear::visit_tensors(const std::function<void(at::Tensor&)>& visit) {
  if (impl_->plain.defined()) visit(impl_->plain);
  if (impl_->on_device) impl_->on_device->visit_tensors(visit);
}

void DeviceQuantWeight::visit_tensors(const std::function<void(at::Tensor&)>& visit) {
  for (at::Tensor* tensor : {&packed_, &scales_, &zeros_, &groups_})
    if (tensor->defined()) visit(*tensor);
}

}  // namespace quaver::nn
