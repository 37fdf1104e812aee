#include "nn/kernel_weight.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "base/thread_pool.h"
#include "nn/tensor_bridge.h"

namespace quaver::nn {

namespace {

// Scales or minima as the kernels take them: the first level as it is stored, those above it as floats.
struct BorrowedScales {
  std::vector<float> super;
  kernels::ScaleView view;

  explicit BorrowedScales(const Scales& scales) {
    view = {.codec = scales.codec, .codes = scales.data.bytes().data()};
    if (!scales.super) return;
    view.divides = scales.super->divisor != 0.0f;
    super = view.divides ? std::vector<float>{scales.super->divisor} : decode_scales(*scales.super);
    const size_t count = scales.data.size_bytes() / static_cast<size_t>(scale_codec_info(scales.codec).bytes);
    view.super = super.data();
    view.share = static_cast<int64_t>(count / super.size());
  }
  BorrowedScales(const BorrowedScales&) = delete;
  BorrowedScales& operator=(const BorrowedScales&) = delete;
};

template <class T>
const T* data_or_null(const std::vector<T>& values) {
  return values.empty() ? nullptr : values.data();
}

kernels::LinearProblem problem_of(const QuantWeight& weight, bool exact_activations) {
  return {.n = weight.shape.rows,
          .k = weight.shape.cols,
          .quantized = true,
          .element = weight.element,
          .group = weight.group.cols,
          .group_rows = weight.group.rows,
          .has_zeros = std::holds_alternative<IntegerZeros>(weight.offset),
          .has_mins = std::holds_alternative<RealMins>(weight.offset),
          .has_permutation = !weight.permutation.empty(),
          .exact_activations = exact_activations};
}

kernels::LinearProblem problem_of(const at::Tensor& plain) {
  return {.n = plain.size(0),
          .k = plain.size(1),
          .plain = dtype_of(plain.scalar_type()),
          .exact_activations = true};
}

const kernels::LinearKernel* find_kernel(const kernels::LinearProblem& problem) {
  try {
    return &kernels::choose_linear_kernel(problem);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUnsupported) return nullptr;
    throw;
  }
}

// This thread's scratch memory; grows and stays.
std::byte* workspace(size_t size_bytes) {
  thread_local Buffer memory;
  thread_local std::byte* start = nullptr;
  if (memory.size_bytes() < size_bytes) memory = Buffer::allocate(size_bytes, start);
  return start;
}

}  // namespace

std::unique_ptr<KernelWeight> KernelWeight::prepack(const kernels::WeightView& view) {
  const kernels::LinearKernel* kernel = find_kernel(view.problem);
  if (!kernel) return nullptr;
  std::unique_ptr<KernelWeight> result(new KernelWeight);
  result->problem_ = view.problem;
  result->kernel_ = kernel;
  result->prepacked_ = kernel->prepack(view);
  return result;
}

std::unique_ptr<KernelWeight> KernelWeight::of(const QuantWeight& weight, bool exact_activations) {
  const auto* zeros = std::get_if<IntegerZeros>(&weight.offset);
  const auto* real = std::get_if<RealMins>(&weight.offset);
  const BorrowedScales scales(weight.scale);
  const std::unique_ptr<BorrowedScales> mins = real ? std::make_unique<BorrowedScales>(real->mins) : nullptr;
  return prepack({.problem = problem_of(weight, exact_activations),
                  .codes = weight.codes.bytes(),
                  .scales = scales.view,
                  .zeros = zeros ? zeros->data.as<uint8_t>().data() : nullptr,
                  .mins = mins ? mins->view : kernels::ScaleView(),
                  .permutation = data_or_null(weight.permutation),
                  .input_multiplier = data_or_null(weight.input_multiplier)});
}

std::unique_ptr<KernelWeight> KernelWeight::of(const at::Tensor& plain) {
  return prepack({.problem = problem_of(plain),
                  .codes = {static_cast<const std::byte*>(plain.data_ptr()), plain.nbytes()}});
}

const kernels::LinearKernel* KernelWeight::choose(const QuantWeight& weight, bool exact_activations) {
  return find_kernel(problem_of(weight, exact_activations));
}

const kernels::LinearKernel* KernelWeight::choose(const at::Tensor& plain) {
  return find_kernel(problem_of(plain));
}

std::vector<at::Tensor> KernelWeight::run(std::span<const Part> parts, const at::Tensor& x) {
  at::Tensor rows = x.stride(-1) == 1 ? x : x.contiguous();
  std::vector<at::Tensor> results;
  std::vector<kernels::LinearPart> jobs;
  size_t workspace_bytes = 0;
  for (const Part& part : parts) {
    const KernelWeight& weight = *part.weight;
    at::Tensor& y = results.emplace_back(at::empty({rows.size(0), weight.problem_.n}, rows.options()));
    jobs.push_back({.problem = &weight.problem_,
                    .weight = weight.prepacked_.get(),
                    .y = y.mutable_data_ptr<float>(),
                    .y_stride = weight.problem_.n,
                    .bias = part.bias.defined() ? part.bias.const_data_ptr<float>() : nullptr});
    workspace_bytes =
        std::max(workspace_bytes, weight.kernel_->workspace_bytes(weight.problem_, rows.size(0)));
  }
  if (rows.size(0) == 0) return results;
  parts[0].weight->kernel_->run_parts(jobs, {.x = rows.const_data_ptr<float>(),
                                             .x_stride = rows.stride(0),
                                             .m = rows.size(0),
                                             .workspace = workspace(workspace_bytes),
                                             .pool = &global_thread_pool()});
  return results;
}

}  // namespace quaver::nn
