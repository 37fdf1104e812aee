// Gathers token ids, positions and block tables of a batch.
#include "llm/runner.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>

#include <utility>

namespace quaver::llm {

std::span<const float> LogitRows::row(int64_t index) const {
  auto width = static_cast<size_t>(tensor.size(1));
  return {tensor.const_data_ptr<float>() + static_cast<size_t>(index) * width, width};
}

Runner::Runner(std::shared_ptr<const models::CausalLm> model, const nn::PagedCacheOptions& cache)
    : model_(std::move(model)), device_(cache.device), attention_(cache) {}

void Runner::forward(const Batch& batch) {
  at::Tensor ids = at::empty({batch.total_tokens}, at::kLong),
             positions = at::empty({batch.total_tokens}, at::kLong);
  int64_t *id = ids.mutable_data_ptr<int64_t>(), *position = positions.mutable_data_ptr<int64_t>();
  std::vector<nn::PagedSequence> sequences;
  sequences.reserve(batch.items.size());
  for (const ScheduledSequence& item : batch.items) {
    const Sequence& sequence = *item.sequence;
    int32_t end = sequence.num_computed + item.num_tokens;
    for (int32_t i = sequence.num_computed; i < end; ++i) {
      *id++ = sequence.tokens[static_cast<size_t>(i)];
      *position++ = i;
    }
    sequences.push_back({item.num_tokens, end, sequence.blocks});
  }
  attention_.begin(std::move(sequences));
  hidden_.reset();  // the last pass's memory may serve this one
  hidden_ = model_->forward(ids.to(device_), {positions.to(device_), &attention_});
}

LogitRows Runner::logits(std::span<const int64_t> rows) const {
  at::Tensor chosen = hidden_;
  if (static_cast<int64_t>(rows.size()) != hidden_.size(0)) {  // else all of them, in order
    at::Tensor index = at::tensor(at::ArrayRef<int64_t>(rows.data(), rows.size()), at::kLong);
    chosen = hidden_.index_select(0, index.to(device_));
  }
  return {model_->logits(chosen).to(at::kCPU, at::kFloat).contiguous()};
}

}  // namespace quaver::llm
