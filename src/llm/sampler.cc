// Masks, bias and penalties on one row of logits, and the choice.
#include "llm/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/sampling/sampling.h"
#include "llm/philox.h"

namespace quaver::llm {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

// Large penalties must not turn a finite logit into an infinity.
float finite(float value) { return std::clamp(value, -1e30f, 1e30f); }

}  // namespace

bool usable_logits(std::span<const float> logits) { return kernels::check_logits(logits); }

PositionLogprobs position_logprobs(std::span<const float> logits, int32_t token, int32_t count) {
  kernels::LogSumExp norm = kernels::log_sum_exp(logits);
  auto entry = [&](int32_t id, int32_t rank) {
    return Logprob{id, norm.log_probability(logits[static_cast<size_t>(id)]), rank};
  };
  auto vocab_size = static_cast<int32_t>(logits.size());
  std::vector<int32_t> top = kernels::top_tokens(logits, count < 0 ? vocab_size : count);
  PositionLogprobs result;
  result.reserve(top.size() + 1);
  result.push_back(entry(token, kernels::rank_of(logits, token)));
  for (size_t i = 0; i < top.size(); ++i) result.push_back(entry(top[i], static_cast<int32_t>(i) + 1));
  return result;
}

Sampler::Sampler(const Setup& setup)
    : params_(*setup.params),
      end_tokens_(setup.end_tokens.begin(), setup.end_tokens.end()),
      seed_(setup.seed) {
  end_tokens_.insert(end_tokens_.end(), params_.stop_token_ids.begin(), params_.stop_token_ids.end());
  if (params_.repetition_penalty != 1.0f)
    for (int32_t token : setup.prompt) counts_.emplace(token, 0);
}

Sampler::Pick Sampler::pick(std::span<const float> logits) {
  if (!usable_logits(logits))
    throw Error(ErrorKind::kNonFinite, cat("the model's logits for output token ", picked_ + 1,
                                           " are not finite; no token can be chosen from them"));
  Pick result;
  result.token = choose(adjusts() ? adjusted(logits) : logits);
  if (params_.logprobs) result.logprobs = position_logprobs(logits, result.token, *params_.logprobs);
  ++picked_;
  ++counts_[result.token];
  return result;
}

bool Sampler::adjusts() const {
  return params_.repetition_penalty != 1.0f || params_.frequency_penalty != 0.0f ||
         params_.presence_penalty != 0.0f || !params_.logit_bias.empty() ||
         !params_.allowed_token_ids.empty() || picked_ < params_.min_tokens;
}

std::span<const float> Sampler::adjusted(std::span<const float> logits) {
  row_.assign(logits.begin(), logits.end());
  if (!params_.allowed_token_ids.empty()) {
    std::ranges::fill(row_, kForbidden);
    for (int32_t token : params_.allowed_token_ids)
      row_[static_cast<size_t>(token)] = logits[static_cast<size_t>(token)];
  }
  apply_masks();
  apply_penalties();
  if (!kernels::check_logits(row_))
    throw Error(ErrorKind::kInvalidInput, "allowed_token_ids and min_tokens together forbid every token",
                "allowed_token_ids");
  return row_;
}

void Sampler::apply_masks() {
  if (picked_ < params_.min_tokens)
    for (int32_t token : end_tokens_)
      if (static_cast<size_t>(token) < row_.size()) row_[static_cast<size_t>(token)] = kForbidden;
  for (auto [token, bias] : params_.logit_bias) row_[static_cast<size_t>(token)] += bias;
}

void Sampler::apply_penalties() {
  float repetition = params_.repetition_penalty;
  for (auto [token, count] : counts_) {
    float& logit = row_[static_cast<size_t>(token)];
    if (logit == kForbidden) continue;
    if (repetition != 1.0f) logit = finite(logit > 0 ? logit / repetition : logit * repetition);
    if (count == 0) continue;
    logit -= params_.frequency_penalty * static_cast<float>(count) + params_.presence_penalty;
  }
}

int32_t Sampler::choose(std::span<const float> logits) const {
  if (params_.temperature == 0.0f) return kernels::argmax(logits);
  kernels::SampleFilter filter;
  filter.temperature = params_.temperature;
  filter.top_k = params_.top_k;
  filter.top_p = params_.top_p;
  filter.min_p = params_.min_p;
  return kernels::sample(logits, filter, uniform_at(seed_, static_cast<uint64_t>(picked_)));
}

}  // namespace quaver::llm
