#include "quantize/range_search.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones_like.h>

#include <algorithm>

#include "quantize/fake_quantize.h"

namespace quaver::quantize {
namespace {

constexpr int kLowest = 15, kHighest = 75;   // in fiftieths
constexpr int64_t kChunkElements = 1 << 17;  // stays in a cache on the CPU

// Sums over groups of squared, weighted errors: [out, groups].
at::Tensor group_errors(const at::Tensor& fake, const at::Tensor& weight, const at::Tensor& importance,
                        int64_t group) {
  at::Tensor errors = (fake.to(at::kFloat) - weight).square_();
  if (importance.defined()) errors.mul_(importance);
  int64_t groups = (weight.size(1) + group - 1) / group;
  if (int64_t padding = groups * group - weight.size(1)) errors = at::constant_pad_nd(errors, {0, padding});
  return errors.view({weight.size(0), groups, group}).sum(-1);
}

void search_rows(QdqTensors rows, const Scheme& scheme, const at::Tensor& importance, at::Tensor ratio) {
  at::Tensor fake = at::empty_like(rows.weight), weight = rows.weight.to(at::kFloat);
  auto errors_at = [&](float r) {
    rows.alpha = rows.beta = at::full_like(ratio, r);
    fake_quantize(rows, scheme, fake);
    return group_errors(fake, weight, importance, rows.group);
  };
  ratio.fill_(1.0f);
  at::Tensor best = errors_at(1.0f);
  for (int step = kLowest; step <= kHighest; ++step) {
    float r = static_cast<float>(step) / 50.0f;
    at::Tensor errors = errors_at(r);
    ratio.masked_fill_(errors < best, r);
    best = at::minimum(errors, best);
  }
}

}  // namespace

at::Tensor search_ranges(const QdqTensors& tensors, const Scheme& scheme, const at::Tensor& importance) {
  at::NoGradGuard no_grad;
  at::Tensor ratio = at::ones_like(tensors.alpha);
  int64_t out = tensors.weight.size(0), in = tensors.weight.size(1);
  int64_t chunk = tensors.weight.is_cpu() ? std::max<int64_t>(1, kChunkElements / in) : out;
  for (int64_t row = 0; row < out; row += chunk) {
    int64_t count = std::min(chunk, out - row);
    auto part = [&](const at::Tensor& whole) { return whole.narrow(0, row, count); };
    search_rows({.weight = part(tensors.weight),
                 .value = part(tensors.value),
                 .alpha = {},
                 .beta = {},
                 .group = tensors.group},
                scheme, importance, part(ratio));
  }
  return ratio;
}

}  // namespace quaver::quantize
