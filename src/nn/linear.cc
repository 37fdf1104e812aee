#include "nn/linear.h"

#include <ATen/ops/linear.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "nn/kernel_path.h"
#include "nn/linear_impl.h"
#include "nn/low_rank.h"
#include "nn/tensor_bridge.h"

namespace quaver::nn {

const KernelWeight* Linear::Impl::kernel_weight() const {
  if (wants_aten() || !on_cpu()) return nullptr;
  std::call_once(kernel_once, [this] {
    const bool exact = exact_activations || input.active();
    kernel = plain.defined() ? KernelWeight::of(plain) : KernelWeight::of(*quant, exact);
  });
  return kernel.get();
}

const kernels::LinearKernel* Linear::Impl::chosen_kernel() const {
  if (wants_aten() || !on_cpu()) return nullptr;
  if (plain.defined()) return KernelWeight::choose(plain);
  return quant ? KernelWeight::choose(*quant, exact_activations || input.active()) : &kernel->kernel();
}

Linear::Linear() : impl_(std::make_unique<Impl>()) {}
Linear::~Linear() = default;
Linear::Linear(Linear&&) noexcept = default;
Linear& Linear::operator=(Linear&&) noexcept = default;

Linear Linear::plain(at::Tensor weight, std::optional<at::Tensor> bias) {
  Linear layer;
  layer.impl_->compute_dtype = weight.scalar_type();
  layer.impl_->shape = {weight.size(0), weight.size(1)};
  layer.impl_->plain = weight.contiguous();
  layer.impl_->bias = std::move(bias);
  if (layer.impl_->bias) layer.impl_->kernel_bias = layer.impl_->bias->detach().to(at::kFloat).contiguous();
  return layer;
}

Linear Linear::quantized(std::shared_ptr<const QuantWeight> weight, std::optional<at::Tensor> bias,
                         at::ScalarType compute_dtype, at::Device device) {
  Linear layer;
  if (!device.is_cpu()) {
    require(DeviceQuantWeight::can_expand(*weight), ErrorKind::kUnsupported, "weights of element ",
            element_info(weight->element).name, " can't stay quantized on ", device.str());
    layer.impl_->on_device = std::make_unique<DeviceQuantWeight>(*weight, device);
  }
  layer.impl_->compute_dtype = compute_dtype;
  layer.impl_->shape = weight->shape;
  layer.impl_->quant = std::move(weight);
  layer.impl_->bias = std::move(bias);
  if (layer.impl_->bias) layer.impl_->kernel_bias = layer.impl_->bias->detach().to(at::kFloat).contiguous();
  return layer;
}

at::Tensor Linear::forward(const at::Tensor& x) const {
  at::Tensor y = impl_->multiply(impl_->input.apply(x));
  add_low_rank(impl_->low_rank, x, y);
  return brought_together(impl_->shard, y);
}

at::Tensor Linear::Impl::multiply(const at::Tensor& x) const {
  if (observer) observer(x);
  if (kernels_apply(x, {&plain}))
    if (const KernelWeight* weight = kernel_weight()) {
      KernelWeight::Part part{weight, kernel_bias};
      return KernelWeight::run({&part, 1}, x)[0];
    }
  std::optional<at::Tensor> added = bias;
  if (added) added = added->to(x.scalar_type());
  if (on_device && !wants_aten() && !(c10::GradMode::is_enabled() && x.requires_grad()))
    if (std::optional<at::Tensor> y = on_device->multiply(x, added)) return *y;
  at::Tensor y = at::linear(x, dense().to(x.scalar_type()), added);
  if (output_observer) output_observer(y);
  return y;
}

int64_t Linear::in_features() const { return impl_->shape.cols; }
int64_t Linear::out_features() const { return impl_->shape.rows; }
const std::optional<at::Tensor>& Linear::bias() const { return impl_->bias; }
std::shared_ptr<const QuantWeight> Linear::quant_weight() const { return impl_->quant; }

at::Tensor Linear::dense_weight() const { return impl_->dense(); }
bool Linear::is_dense() const { return impl_->plain.defined(); }

at::Tensor Linear::Impl::dense() const {
  if (plain.defined()) return plain;
  if (on_device) return on_device->dense(compute_dtype);
  require(quant != nullptr, ErrorKind::kInternal, "this weight was kept in its kernel's layout only");
  Buffer values = Buffer::copy_of(dequantize(*quant));
  return tensor_over({DType::kF32, {shape.rows, shape.cols}, values}, "weight").to(compute_dtype);
}

void Linear::set_dense_weight(at::Tensor weight) {
  require(weight.dim() == 2 && weight.size(0) == out_features() && weight.size(1) == in_features(),
          ErrorKind::kInternal, "a layer of [", out_features(), ", ", in_features(),
          "] was given a weight of ", weight.sizes().vec());
  impl_->plain = std::move(weight);
  impl_->overridden = true;
}

void Linear::set_input_observer(std::function<void(const at::Tensor&)> observer) {
  impl_->observer = std::move(observer);
}

void Linear::set_output_observer(std::function<void(const at::Tensor&)> observer) {
  impl_->output_observer = std::move(observer);
}

void Linear::set_input_quant(InputQuant quant) { impl_->input = std::move(quant); }

const InputQuant& Linear::input_quant() const { return impl_->input; }

void Linear::set_low_rank(std::vector<LowRank> updates) {
  const Extent2d whole = whole_shape();
  const LinearShard& shard = impl_->shard;
  for (LowRank& update : updates) {
    require(update.down.dim() == 2 && update.up.dim() == 2 && update.down.size(1) == whole.cols &&
                update.up.size(0) == whole.rows && update.down.size(0) == update.up.size(1),
            ErrorKind::kInternal, "a layer of [", whole.rows, ", ", whole.cols, "] was given an update of ",
            update.up.sizes().vec(), " times ", update.down.sizes().vec());
    if (shard.has_columns()) update.down = taken(update.down, 1, shard.runs).contiguous();
    if (shard.has_rows()) update.up = taken(update.up, 0, shard.runs).contiguous();
  }
  impl_->low_rank = std::move(updates);
}

void Linear::set_shard(LinearShard shard) { impl_->shard = std::move(shard); }

const LinearShard& Linear::shard() const { return impl_->shard; }

Extent2d Linear::whole_shape() const {
  const LinearShard& shard = impl_->shard;
  return {shard.has_rows() ? shard.whole : out_features(), shard.has_columns() ? shard.whole : in_features()};
}

void Linear::set_exact_activations(bool exact) { impl_->exact_activations = exact; }

void Linear::keep_kernel_layout_only() {
  if (impl_->on_device) impl_->quant = nullptr;
  if (!impl_->kernel_weight()) return;
  impl_->quant = nullptr;
  impl_->plain = at::Tensor();
}

void Linear::prepare() const { impl_->kernel_weight(); }

std::string Linear::kernel_name() const {
  const kernels::LinearKernel* kernel = impl_->chosen_kernel();
  return kernel ? kernel->name : "aten";
}

size_t Linear::size_bytes() const {
  size_t bias_bytes = impl_->bias ? impl_->bias->nbytes() : 0;
  if (impl_->plain.defined()) return impl_->plain.nbytes() + bias_bytes;
  if (impl_->quant) return impl_->quant->size_bytes() + bias_bytes;
  return (impl_->on_device ? impl_->on_device->size_bytes() : impl_->kernel->size_bytes()) + bias_bytes;
}

}  // namespace quaver::nn
