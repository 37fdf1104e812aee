#include "quantize/batch_runner.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "base/thread_pool.h"
#include "nn/attention_context.h"
#include "quantize/aten_threads.h"

namespace quaver::quantize {
namespace {

class ObservedAttention : public nn::DenseAttention {
 public:
  ObservedAttention(std::vector<int64_t> lengths, const BatchRunner::KvObserver& observer)
      : DenseAttention(std::move(lengths)), observer_(observer) {}

  at::Tensor attend(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const nn::AttentionParams& params) override {
    if (observer_) observer_(k, v);
    return DenseAttention::attend(layer, q, k, v, params);
  }

 private:
  const BatchRunner::KvObserver& observer_;
};

}  // namespace

void add_gradients(std::vector<at::Tensor>& sums, const std::vector<at::Tensor>& parts) {
  if (sums.empty()) sums.resize(parts.size());
  global_thread_pool().parallel_for(static_cast<int64_t>(sums.size()), 1, [&](int64_t begin, int64_t end) {
    at::NoGradGuard no_grad;
    AtenThreads guard(1);
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if (!sums[i].defined())
        sums[i] = parts[i];
      else if (parts[i].defined())
        sums[i].add_(parts[i]);
    }
  });
}

at::Tensor select_rows(const at::Tensor& from, std::span<const int64_t> which) {
  at::Tensor index = at::tensor(at::ArrayRef<int64_t>(which.data(), which.size())).to(from.device());
  return at::index_select(from, 0, index);
}

BatchRunner::BatchRunner(const models::DecoderBlock& block, int64_t seqlen, at::Device device)
    : block_(block), one_row_(at::arange(seqlen, at::TensorOptions(at::kLong).device(device))) {}

int64_t BatchRunner::num_slices(int64_t batch) const {
  if (whole_ || !one_row_.is_cpu()) return 1;
  return std::min<int64_t>(batch, global_thread_pool().num_threads());
}

void BatchRunner::for_each_slice(std::span<const int64_t> which, const SliceBody& body) const {
  size_t slices = static_cast<size_t>(num_slices(static_cast<int64_t>(which.size())));
  if (slices <= 1) return body(0, which);
  int threads = std::max(1, global_thread_pool().num_threads() / static_cast<int>(slices));
  global_thread_pool().parallel_for(static_cast<int64_t>(slices), 1, [&](int64_t begin, int64_t end) {
    AtenThreads guard(threads);
    for (auto s = static_cast<size_t>(begin); s < static_cast<size_t>(end); ++s) {
      size_t first = s * which.size() / slices;
      body(static_cast<int64_t>(s), which.subspan(first, (s + 1) * which.size() / slices - first));
    }
  });
}

at::Tensor BatchRunner::run(const at::Tensor& rows, std::span<const int64_t> which) const {
  auto batch = static_cast<int64_t>(which.size());
  int64_t seqlen = rows.size(1), hidden = rows.size(2);
  ObservedAttention attention(std::vector<int64_t>(which.size(), seqlen), kv_observer_);
  models::StepContext step{
      .positions = one_row_.repeat({batch}), .attention = &attention, .experts = experts_};
  return block_.forward(select_rows(rows, which).view({batch * seqlen, hidden}), step)
      .view({batch, seqlen, -1});
}

void BatchRunner::forward(const at::Tensor& rows, std::span<const int64_t> which,
                          const Consumer& consume) const {
  for_each_slice(which, [&](int64_t slice, std::span<const int64_t> part) {
    at::NoGradGuard no_grad;
    consume(run(rows, part), part, slice);
  });
}

std::vector<at::Tensor> BatchRunner::gradients(const at::Tensor& rows, std::span<const int64_t> which,
                                               const std::vector<at::Tensor>& leaves,
                                               const OutputGradient& output_gradient) const {
  std::vector<std::vector<at::Tensor>> parts(
      static_cast<size_t>(num_slices(static_cast<int64_t>(which.size()))));
  for_each_slice(which, [&](int64_t slice, std::span<const int64_t> part) {
    at::AutoGradMode with_gradients(true);
    at::Tensor output = run(rows, part);
    at::Tensor gradient = output_gradient(output.detach(), part, slice);
    parts[static_cast<size_t>(slice)] =
        torch::autograd::grad({output}, leaves, {gradient}, /*retain_graph=*/std::nullopt,
                              /*create_graph=*/false, /*allow_unused=*/true);
  });
  for (size_t slice = 1; slice < parts.size(); ++slice) add_gradients(parts.front(), parts[slice]);
  return std::move(parts.front());
}

}  // namespace quaver::quantize
