#include "nn/full_attention.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <atomic>

#include "base/log.h"
#include "kernels/device.h"

namespace quaver::nn {

namespace {

// Since this version its kernels for Hopper and later chips are faster than torch's own, which are made for
// Ampere: 1.5 times and more for heads of 128.
constexpr long kCudnnVersion = 90100;
constexpr int64_t kCudnnHeadDim = 128;

// It plans each new size for a part of a second, so it is for attention whose sizes stay.
bool cudnn_is_better(const at::Tensor& q) {
  const bool half = q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
  if (!q.is_cuda() || !half || q.size(3) > kCudnnHeadDim || q.size(3) % 8 != 0) return false;
  if (c10::GradMode::is_enabled() && q.requires_grad()) return false;
  const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
  static const bool known = hooks.compiledWithCuDNN() && hooks.versionCuDNN() >= kCudnnVersion;
  return known && kernels::device_capability(q.device().index()) >= 90;
}

}  // namespace

at::Tensor full_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  static std::atomic<bool> refused = false;
  if (cudnn_is_better(q) && !refused) try {
      return std::get<0>(
          at::_scaled_dot_product_cudnn_attention(q, k, v, std::nullopt, /*compute_log_sumexp=*/false));
    } catch (const c10::Error& error) {
      if (!refused.exchange(true))
        log_warning("cuDNN's attention is not to be had, torch's own is taken: ",
                    error.what_without_backtrace());
    }
  return at::scaled_dot_product_attention(q, k, v);
}

}  // namespace quaver::nn
