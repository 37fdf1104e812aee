#include "quantize/head_rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gather.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "quantize/batch_runner.h"

namespace quaver::quantize {
namespace {

constexpr int64_t kMaxLogits = int64_t{1} << 26;

}  // namespace

int64_t head_positions(int64_t vocab_size, int64_t batch_size, int64_t seqlen) {
  return std::clamp<int64_t>(kMaxLogits / (vocab_size * batch_size), std::min<int64_t>(2, seqlen), seqlen);
}

Activations drawn_positions(const Activations& from, int64_t count, uint64_t seed) {
  if (count == from.seqlen()) return from;
  std::mt19937_64 random(seed);
  at::Tensor chosen = at::empty({from.num_rows(), count, 1}, at::kLong);
  std::vector<int64_t> positions(static_cast<size_t>(from.seqlen()));
  for (int64_t row = 0; row < from.num_rows(); ++row) {
    std::iota(positions.begin(), positions.end(), 0);
    for (size_t i = 0; i < static_cast<size_t>(count); ++i)
      std::swap(positions[i], positions[i + random() % (positions.size() - i)]);
    std::sort(positions.begin(), positions.begin() + count);
    std::copy_n(positions.begin(), count, chosen.data_ptr<int64_t>() + row * count);
  }
  return {at::gather(from.rows, 1, chosen.to(from.rows.device()).expand({-1, -1, from.rows.size(2)}))};
}

TuneTarget head_target(const models::DecoderBlock& head, const Activations& rows, int64_t vocab_size) {
  return {.rows =
              [&head, &rows](std::span<const int64_t> which) {
                at::NoGradGuard no_grad;
                at::Tensor chosen = select_rows(rows.rows, which);
                return head.forward(chosen.flatten(0, 1), {}).view({chosen.size(0), chosen.size(1), -1});
              },
          .width = vocab_size};
}

}  // namespace quaver::quantize
