// Runs rows of activations through a block, with or without gradients, on all processors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "models/llm/causal_lm.h"

namespace quaver::quantize {

// sums[i] += parts[i], where either may be undefined. `sums` may be changed in place.
void add_gradients(std::vector<at::Tensor>& sums, const std::vector<at::Tensor>& parts);

// from[which]: copies of those rows.
at::Tensor select_rows(const at::Tensor& from, std::span<const int64_t> which);

// A row is a sequence of its own, so rows are independent: a batch is cut into slices of whole rows and each
// slice runs on one thread from end to end. Threads that split every operation instead meet hundreds of times
// in a step, and on a busy machine most of the time went into those meetings.
class BatchRunner {
 public:
  BatchRunner(const models::DecoderBlock& block, int64_t seqlen, at::Device device);

  // Runs on several threads at once: a slice's output [n, seqlen, width], the numbers of its rows, and its
  // own number, below num_slices.
  using Consumer =
      std::function<void(const at::Tensor& output, std::span<const int64_t> which, int64_t slice)>;

  // block(rows[which]) without gradients; rows are [num_rows, seqlen, hidden].
  void forward(const at::Tensor& rows, std::span<const int64_t> which, const Consumer& consume) const;

  // As Consumer, but returns the gradient of the loss with respect to the output.
  using OutputGradient =
      std::function<at::Tensor(const at::Tensor& output, std::span<const int64_t> which, int64_t slice)>;

  // Gradients of `leaves`, summed over the batch; undefined where the output does not depend on one.
  std::vector<at::Tensor> gradients(const at::Tensor& rows, std::span<const int64_t> which,
                                    const std::vector<at::Tensor>& leaves,
                                    const OutputGradient& output_gradient) const;

  // How many slices a batch of so many rows makes.
  int64_t num_slices(int64_t batch) const;

  // Called with the keys and values of each attention layer as they would be cached: [tokens, heads, dim].
  using KvObserver = std::function<void(const at::Tensor& keys, const at::Tensor& values)>;

  // The whole batch in one slice from now on, for blocks whose layers have input observers. Either may be
  // null; `experts` is borrowed.
  void observe(KvObserver kv, nn::ExpertCalibration* experts) {
    whole_ = true, kv_observer_ = std::move(kv), experts_ = experts;
  }

 private:
  using SliceBody = std::function<void(int64_t slice, std::span<const int64_t> which)>;
  void for_each_slice(std::span<const int64_t> which, const SliceBody& body) const;
  at::Tensor run(const at::Tensor& rows, std::span<const int64_t> which) const;

  const models::DecoderBlock& block_;
  at::Tensor one_row_;  // [seqlen] positions
  bool whole_ = false;
  KvObserver kv_observer_;
  nn::ExpertCalibration* experts_ = nullptr;
};

}  // namespace quaver::quantize
