#include "nn/joined_heads.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "kernels/rope/device_heads.h"
#include "nn/device_kernel.h"

namespace quaver::nn {

namespace {

// The angles of every batch entry's tokens, one entry after the other.
RopeAngles for_batch(const RopeAngles& angles, int64_t batch) {
  if (batch == 1) return angles;
  return {angles.cos.repeat({batch, 1}), angles.sin.repeat({batch, 1})};
}

at::Tensor joined_aten(const std::vector<StreamHeads>& streams, const RopeAngles& angles) {
  std::vector<at::Tensor> normed;
  for (const StreamHeads& stream : streams) normed.push_back(stream.norm->forward(stream.x));
  const at::Tensor all = normed.size() == 1 ? normed.front() : at::cat(normed, 1);
  const int64_t batch = all.size(0), tokens = all.size(1);
  return apply_interleaved_rope(all.flatten(0, 1), for_batch(angles, batch)).unflatten(0, {batch, tokens});
}

bool turning_kernel_takes(const StreamHeads& stream) {
  const at::Tensor& x = stream.x;
  return device_kernels_apply(x, {&stream.norm->weight()}) && kernels::turn_heads_takes(x.size(3)) &&
         x.stride(3) == 1 && x.stride(2) == x.size(3) && x.stride(1) % 8 == 0 && x.stride(0) % 8 == 0 &&
         x.storage_offset() % 8 == 0;
}

at::Tensor joined_on_device(const std::vector<StreamHeads>& streams, const RopeAngles& angles) {
  const at::Tensor& first = streams.front().x;
  at::Tensor cos = angles.cos.to(at::kFloat).contiguous(), sin = angles.sin.to(at::kFloat).contiguous();
  at::Tensor y = at::empty({first.size(0), cos.size(0), first.size(2), first.size(3)}, first.options());
  int64_t token = 0;
  for (const auto& [x, norm] : streams) {
    at::Tensor part = y.narrow(1, token, x.size(1));
    kernels::turn_heads_on_device({.type = device_float(x.scalar_type()),
                                   .x = x.const_data_ptr(),
                                   .x_batch_stride = x.stride(0),
                                   .x_token_stride = x.stride(1),
                                   .y = part.mutable_data_ptr(),
                                   .y_batch_stride = part.stride(0),
                                   .y_token_stride = part.stride(1),
                                   .weight = norm->scale().const_data_ptr<float>(),
                                   .cos = cos.const_data_ptr<float>() + token * cos.size(1),
                                   .sin = sin.const_data_ptr<float>() + token * sin.size(1),
                                   .batch = x.size(0),
                                   .tokens = x.size(1),
                                   .heads = x.size(2),
                                   .head_dim = x.size(3),
                                   .epsilon = static_cast<float>(norm->eps())},
                                  current_stream(x.device()));
    token += x.size(1);
  }
  return y;
}

}  // namespace

at::Tensor joined_heads(const std::vector<StreamHeads>& streams, const RopeAngles& angles) {
  return std::ranges::all_of(streams, turning_kernel_takes) ? joined_on_device(streams, angles)
                                                            : joined_aten(streams, angles);
}

}  // namespace quaver::nn
