#include "nn/group_norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/silu.h>

#include "kernels/norm/device_group_norm.h"
#include "nn/device_kernel.h"

namespace quaver::nn {

namespace {

bool group_norm_kernel_takes(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return device_kernels_apply(x, {&weight, &bias}) && weight.scalar_type() == x.scalar_type() &&
         kernels::device_group_norm_takes(x.size(1)) && x.numel() > 0;
}

// Convolutions on CUDA give their channels side by side, and ATen's norm would lay each picture out anew.
at::Tensor group_norm_on_cuda(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                              kernels::DeviceGroupNorm args) {
  const at::Tensor pixels = x.contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor y = at::empty_like(pixels);
  args.type = device_float(x.scalar_type());
  args.x = pixels.const_data_ptr(), args.y = y.mutable_data_ptr();
  args.weight = weight.const_data_ptr(), args.bias = bias.const_data_ptr();
  args.batch = x.size(0), args.channels = x.size(1), args.pixels = x.size(2) * x.size(3);
  at::Tensor workspace = at::empty({static_cast<int64_t>(kernels::group_norm_workspace_floats(args))},
                                   x.options().dtype(at::kFloat));
  args.workspace = workspace.mutable_data_ptr<float>();
  kernels::group_norm_on_device(args, current_stream(x.device()));
  return y;
}

}  // namespace

GroupNorm::GroupNorm(WeightSource& source, std::string_view prefix, int64_t channels, int64_t groups,
                     double eps)
    : weight_(source.tensor(cat(prefix, ".weight"), {channels})),
      bias_(source.tensor(cat(prefix, ".bias"), {channels})),
      groups_(groups),
      eps_(eps) {}

at::Tensor GroupNorm::forward(const at::Tensor& x) const {
  if (group_norm_kernel_takes(x, weight_, bias_))
    return group_norm_on_cuda(x, weight_, bias_, {.groups = groups_, .epsilon = static_cast<float>(eps_)});
  return at::group_norm(x, groups_, weight_, bias_, eps_);
}

at::Tensor GroupNorm::forward_silu(const at::Tensor& x) const {
  if (group_norm_kernel_takes(x, weight_, bias_))
    return group_norm_on_cuda(x, weight_, bias_,
                              {.groups = groups_, .epsilon = static_cast<float>(eps_), .silu = true});
  at::Tensor y = forward(x);
  return at::silu_(y);
}

}  // namespace quaver::nn
