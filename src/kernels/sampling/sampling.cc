#include "kernels/sampling/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/isa.h"
#include "kernels/sampling/logit_ops.h"

namespace quaver::kernels {
namespace {

const LogitOps& ops_for(const CpuFeatures& cpu) {
  return *pick_isa(cpu, &kLogitOpsScalar, &kLogitOpsAvx2, &kLogitOpsAvx512);
}

int64_t size_of(std::span<const float> logits) { return static_cast<int64_t>(logits.size()); }

struct Candidate {
  float logit;
  int32_t token;
};

// Largest first, ties by index.
bool before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// All tokens with logit >= threshold, in index order.
std::vector<Candidate> at_least(const LogitOps& ops, std::span<const float> logits, float threshold) {
  thread_local std::vector<int32_t> indices;
  indices.resize(logits.size());
  int64_t count = ops.collect(logits.data(), size_of(logits), threshold, indices.data());
  std::vector<Candidate> found(static_cast<size_t>(count));
  for (size_t i = 0; i < found.size(); ++i) found[i] = {logits[static_cast<size_t>(indices[i])], indices[i]};
  return found;
}

// How far below the maximum to look for candidates, tried in turn; the last takes everything.
constexpr float kReach[] = {4.0f, 10.0f, 25.0f, std::numeric_limits<float>::infinity()};

// The `count` first in order, unsorted. Looks near the maximum first, where they usually are.
std::vector<Candidate> largest(const LogitOps& ops, std::span<const float> logits, size_t count) {
  float max = ops.max(logits.data(), size_of(logits));
  std::vector<Candidate> found;
  for (float reach : kReach) {
    found = at_least(ops, logits, max - reach);
    if (found.size() >= count) break;
  }
  if (found.size() <= count) return found;
  std::nth_element(found.begin(), found.begin() + static_cast<int64_t>(count), found.end(), before);
  found.resize(count);
  return found;
}

// One call of sample(): weights relative to the most likely token, at the temperature asked for.
class Draw {
 public:
  Draw(const LogitOps& ops, std::span<const float> logits, const SampleFilter& filter)
      : ops_(ops), logits_(logits), filter_(filter), max_(ops.max(logits.data(), size_of(logits))) {}

  int32_t unfiltered(double uniform) const;
  int32_t filtered(double uniform) const;

 private:
  double weight(float logit) const {
    return std::exp((static_cast<double>(logit) - max_) / static_cast<double>(filter_.temperature));
  }
  double total_weight(const std::vector<Candidate>& kept) const {
    double total = 0;
    for (const Candidate& c : kept) total += weight(c.logit);
    return total;
  }
  bool cuts_by_share() const { return filter_.top_p < 1.0f; }
  std::vector<Candidate> kept_by_rank() const;
  std::vector<Candidate> near_maximum() const;
  void keep_share(std::vector<Candidate>& kept, double total) const;
  int32_t walk(const std::vector<Candidate>& kept, double uniform) const;

  const LogitOps& ops_;
  std::span<const float> logits_;
  const SampleFilter& filter_;
  float max_;
};

int32_t Draw::unfiltered(double uniform) const {
  constexpr int64_t kBlock = 4096;
  float inverse = 1.0f / filter_.temperature;
  std::vector<double> sums;
  double total = 0;
  for (int64_t begin = 0; begin < size_of(logits_); begin += kBlock) {
    sums.push_back(
        ops_.sum_exp(logits_.data() + begin, std::min(kBlock, size_of(logits_) - begin), max_, inverse));
    total += sums.back();
  }
  double target = uniform * total;
  size_t block = 0;
  while (block + 1 < sums.size() && target >= sums[block]) target -= sums[block++];
  auto begin = static_cast<int64_t>(block) * kBlock, end = std::min(size_of(logits_), begin + kBlock);
  int32_t last = -1;
  for (int64_t i = begin; i < end; ++i) {
    double w = weight(logits_[static_cast<size_t>(i)]);
    if (w == 0) continue;
    last = static_cast<int32_t>(i);
    if (target < w) return last;
    target -= w;
  }
  // Rounding left a crumb past the block's end, or the block holds nothing.
  return last >= 0 ? last : static_cast<int32_t>(ops_.find_equal(logits_.data(), size_of(logits_), max_));
}

// Candidates after min_p and top_k; with neither, enough of the largest for the top_p cut.
std::vector<Candidate> Draw::kept_by_rank() const {
  std::vector<Candidate> kept;
  auto count = static_cast<size_t>(std::max(filter_.top_k, 0));
  if (count > 0 && count < logits_.size())
    kept = largest(ops_, logits_, count);
  else if (filter_.min_p > 0)
    kept = at_least(ops_, logits_, max_ + filter_.temperature * std::log(filter_.min_p) * 1.001f - 1e-3f);
  else
    kept = near_maximum();
  if (filter_.min_p > 0)
    std::erase_if(kept,
                  [&](const Candidate& c) { return weight(c.logit) < static_cast<double>(filter_.min_p); });
  return kept;
}

std::vector<Candidate> Draw::near_maximum() const {
  double wanted = static_cast<double>(filter_.top_p) *
                  ops_.sum_exp(logits_.data(), size_of(logits_), max_, 1.0f / filter_.temperature);
  for (float reach : kReach) {
    std::vector<Candidate> kept = at_least(ops_, logits_, max_ - reach * filter_.temperature);
    if (kept.size() == logits_.size() || total_weight(kept) >= wanted) return kept;
  }
  return at_least(ops_, logits_, -std::numeric_limits<float>::infinity());
}

// Cuts to the fewest most likely whose weights reach top_p of `total`.
void Draw::keep_share(std::vector<Candidate>& kept, double total) const {
  std::sort(kept.begin(), kept.end(), before);
  double wanted = static_cast<double>(filter_.top_p) * total, sum = 0;
  size_t count = 0;
  while (count < kept.size() && (count == 0 || sum < wanted)) sum += weight(kept[count++].logit);
  kept.resize(count);
}

int32_t Draw::walk(const std::vector<Candidate>& kept, double uniform) const {
  double target = uniform * total_weight(kept);
  int32_t last = kept.front().token;
  for (const Candidate& c : kept) {
    double w = weight(c.logit);
    if (w == 0) continue;
    last = c.token;
    if (target < w) break;
    target -= w;
  }
  return last;
}

int32_t Draw::filtered(double uniform) const {
  bool ranked =
      (filter_.top_k > 0 && filter_.top_k < static_cast<int32_t>(logits_.size())) || filter_.min_p > 0;
  std::vector<Candidate> kept = kept_by_rank();
  if (kept.empty()) return static_cast<int32_t>(ops_.find_equal(logits_.data(), size_of(logits_), max_));
  if (cuts_by_share())
    keep_share(kept, ranked
                         ? total_weight(kept)
                         : ops_.sum_exp(logits_.data(), size_of(logits_), max_, 1.0f / filter_.temperature));
  std::sort(kept.begin(), kept.end(),
            [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
  return walk(kept, uniform);
}

}  // namespace

bool check_logits(std::span<const float> logits, const CpuFeatures& cpu) {
  return ops_for(cpu).acceptable(logits.data(), size_of(logits));
}

int32_t argmax(std::span<const float> logits, const CpuFeatures& cpu) {
  const LogitOps& ops = ops_for(cpu);
  float max = ops.max(logits.data(), size_of(logits));
  return static_cast<int32_t>(ops.find_equal(logits.data(), size_of(logits), max));
}

LogSumExp log_sum_exp(std::span<const float> logits, const CpuFeatures& cpu) {
  const LogitOps& ops = ops_for(cpu);
  float max = ops.max(logits.data(), size_of(logits));
  return {max, std::log(ops.sum_exp(logits.data(), size_of(logits), max, 1.0f))};
}

int32_t rank_of(std::span<const float> logits, int32_t token, const CpuFeatures& cpu) {
  const LogitOps& ops = ops_for(cpu);
  float value = logits[static_cast<size_t>(token)];
  int64_t rank = 1 + ops.count_above(logits.data(), size_of(logits), value);
  for (int32_t i = 0; i < token; ++i) rank += logits[static_cast<size_t>(i)] == value;
  return static_cast<int32_t>(rank);
}

std::vector<int32_t> top_tokens(std::span<const float> logits, int32_t count, const CpuFeatures& cpu) {
  std::vector<Candidate> found =
      largest(ops_for(cpu), logits, std::min(static_cast<size_t>(std::max(count, 0)), logits.size()));
  std::sort(found.begin(), found.end(), before);
  std::vector<int32_t> tokens;
  for (const Candidate& c : found) tokens.push_back(c.token);
  return tokens;
}

int32_t sample(std::span<const float> logits, const SampleFilter& filter, double uniform,
               const CpuFeatures& cpu) {
  Draw draw(ops_for(cpu), logits, filter);
  bool all = filter.top_k <= 0 && filter.top_p >= 1.0f && filter.min_p <= 0.0f;
  return all ? draw.unfiltered(uniform) : draw.filtered(uniform);
}

}  // namespace quaver::kernels
