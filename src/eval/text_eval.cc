#include "eval/text_eval.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/log_softmax.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace quaver::eval {
namespace {

constexpr int64_t kLogitRows = 128;  // a full chunk of a large vocabulary's logits would be gigabytes

// Sums per chunk, from which means and their errors come.
class ChunkedMean {
 public:
  void add_chunk(double sum, int64_t count) {
    sums_.push_back(sum);
    count_per_chunk_ = count;
  }
  Estimate estimate() const {
    auto chunks = static_cast<double>(sums_.size());
    double mean = 0, variance = 0;
    for (double sum : sums_) mean += sum / static_cast<double>(count_per_chunk_) / chunks;
    for (double sum : sums_) variance += std::pow(sum / static_cast<double>(count_per_chunk_) - mean, 2);
    double error = sums_.size() > 1 ? std::sqrt(variance / (chunks - 1) / chunks) : 0.0;
    return {mean, error};
  }

 private:
  std::vector<double> sums_;
  int64_t count_per_chunk_ = 1;
};

at::Tensor hidden_of(const models::CausalLm& model, const at::Tensor& ids) {
  nn::DenseAttention attention({ids.size(0)});
  models::StepContext step{.positions = at::arange(ids.size(0), ids.options()), .attention = &attention};
  return model.forward(ids, step);
}

class Scorer {
 public:
  Scorer(const models::CausalLm& model, const models::CausalLm* reference, int64_t chunk_length)
      : model_(model), reference_(reference), chunk_length_(chunk_length) {}

  void score_chunk(const at::Tensor& ids) {
    at::Tensor hidden = hidden_of(model_, ids);
    at::Tensor reference_hidden = reference_ != nullptr ? hidden_of(*reference_, ids) : at::Tensor();
    sums_ = {};
    for (int64_t row = 0; row < chunk_length_; row += kLogitRows)
      score_rows(ids, hidden, reference_hidden, row, std::min(kLogitRows, chunk_length_ - row));
    nll_.add_chunk(sums_.nll, chunk_length_ - 1);
    reference_nll_.add_chunk(sums_.reference_nll, chunk_length_ - 1);
    kl_.add_chunk(sums_.kl, chunk_length_);
    same_.add_chunk(sums_.same, chunk_length_);
  }

  TextEvaluation result(int64_t num_tokens) {
    TextEvaluation out{.num_tokens = num_tokens, .chunk_length = chunk_length_};
    out.negative_log_likelihood = nll_.estimate();
    out.perplexity = std::exp(out.negative_log_likelihood.mean);
    out.perplexity_standard_error = out.perplexity * out.negative_log_likelihood.standard_error;
    if (reference_ == nullptr) return out;
    out.kl = kl_.estimate();
    auto p99 = kl_values_.begin() + static_cast<ptrdiff_t>(kl_values_.size() * 99 / 100);
    std::nth_element(kl_values_.begin(), p99, kl_values_.end());
    out.kl_p99 = *p99;
    out.top1_agreement = same_.estimate();
    out.reference_perplexity = std::exp(reference_nll_.estimate().mean);
    return out;
  }

 private:
  struct Sums {
    double nll = 0, reference_nll = 0, kl = 0, same = 0;
  };

  static at::Tensor log_probabilities(const models::CausalLm& model, const at::Tensor& hidden) {
    at::Tensor result = at::log_softmax(model.logits(hidden).to(at::kFloat), -1);
    require(result.isfinite().all().item<bool>(), ErrorKind::kNonFinite, "a logit is not finite");
    return result;
  }

  // Sum of -log p(next token) over the rows that have a next token in this chunk.
  double next_token_loss(const at::Tensor& log_probs, const at::Tensor& ids, int64_t row) const {
    int64_t scored = std::min(log_probs.size(0), chunk_length_ - 1 - row);
    if (scored <= 0) return 0;
    at::Tensor next = ids.narrow(0, row + 1, scored).unsqueeze(1);
    return -log_probs.narrow(0, 0, scored).gather(1, next).to(at::kDouble).sum().item<double>();
  }

  void score_rows(const at::Tensor& ids, const at::Tensor& hidden, const at::Tensor& reference_hidden,
                  int64_t row, int64_t count) {
    at::Tensor log_probs = log_probabilities(model_, hidden.narrow(0, row, count));  // [count, vocab]
    sums_.nll += next_token_loss(log_probs, ids, row);
    if (reference_ == nullptr) return;
    at::Tensor expected = log_probabilities(*reference_, reference_hidden.narrow(0, row, count));
    sums_.reference_nll += next_token_loss(expected, ids, row);
    at::Tensor kl = (expected.exp() * (expected - log_probs)).sum(-1, false, at::kDouble).to(at::kCPU);
    kl_values_.insert(kl_values_.end(), kl.const_data_ptr<double>(),
                      kl.const_data_ptr<double>() + kl.numel());
    sums_.kl += kl.sum().item<double>();
    sums_.same += (expected.argmax(-1) == log_probs.argmax(-1)).sum().item<double>();
  }

  const models::CausalLm& model_;
  const models::CausalLm* reference_;
  int64_t chunk_length_;
  Sums sums_;
  ChunkedMean nll_, reference_nll_, kl_, same_;
  std::vector<double> kl_values_;
};

json to_json(const Estimate& estimate) {
  return {{"mean", estimate.mean}, {"standard_error", estimate.standard_error}};
}

}  // namespace

TextEvaluation evaluate_text(const models::CausalLm& model, const models::CausalLm* reference,
                             const at::Tensor& tokens, int64_t chunk_length, ProgressSink& progress) {
  require(chunk_length >= 2, ErrorKind::kInvalidInput, "the chunk length must be at least 2, got ",
          chunk_length);
  int64_t chunks = tokens.size(0) / chunk_length;
  require(chunks >= 1, ErrorKind::kInvalidInput, "the text has ", tokens.size(0),
          " tokens, fewer than one chunk of ", chunk_length);
  if (reference != nullptr)
    require(model.info().vocab_size == reference->info().vocab_size, ErrorKind::kInvalidInput,
            "the models' vocabularies differ: ", model.info().vocab_size, " and ",
            reference->info().vocab_size, " tokens");
  at::NoGradGuard no_grad;
  Scorer scorer(model, reference, chunk_length);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    scorer.score_chunk(tokens.narrow(0, chunk * chunk_length, chunk_length));
    progress.update(chunk + 1, chunks, "");
  }
  return scorer.result(chunks * chunk_length);
}

json to_json(const TextEvaluation& e) {
  json out = {{"tokens", e.num_tokens},
              {"chunk_length", e.chunk_length},
              {"perplexity", e.perplexity},
              {"perplexity_standard_error", e.perplexity_standard_error},
              {"negative_log_likelihood", to_json(e.negative_log_likelihood)}};
  if (e.kl) out["kl"] = to_json(*e.kl);
  if (e.kl_p99) out["kl_p99"] = *e.kl_p99;
  if (e.top1_agreement) out["top1_agreement"] = to_json(*e.top1_agreement);
  if (e.reference_perplexity) out["reference_perplexity"] = *e.reference_perplexity;
  return out;
}

}  // namespace quaver::eval
