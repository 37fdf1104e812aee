#include "kernels/linear/channel_blocks.h"

#include <algorithm>
#include <numeric>

namespace quaver::kernels {
namespace {

std::vector<int32_t> group_of_channels(const LinearProblem& p, const int32_t* permutation) {
  std::vector<int32_t> groups(static_cast<size_t>(p.k));
  for (int64_t i = 0; i < p.k; ++i)
    groups[static_cast<size_t>(i)] = static_cast<int32_t>((permutation ? permutation[i] : i) / p.group);
  return groups;
}

}  // namespace

BlockPlan plan_blocks(const WeightView& weight) {
  const LinearProblem& problem = weight.problem;
  BlockPlan plan;
  if (weight.input_multiplier)
    plan.multiplier.assign(weight.input_multiplier, weight.input_multiplier + problem.k);
  plan.k = problem.k;
  plan.group = problem.group;
  std::vector<int32_t> groups = group_of_channels(problem, weight.permutation);
  if (!std::is_sorted(groups.begin(), groups.end())) {
    plan.order.resize(groups.size());
    std::iota(plan.order.begin(), plan.order.end(), 0);
    auto group_at = [&](int32_t channel) { return groups[static_cast<size_t>(channel)]; };
    std::stable_sort(plan.order.begin(), plan.order.end(),
                     [&](int32_t a, int32_t b) { return group_at(a) < group_at(b); });
    std::sort(groups.begin(), groups.end());
  }
  for (int32_t begin = 0, k = static_cast<int32_t>(problem.k); begin < k;) {
    int32_t group = groups[static_cast<size_t>(begin)], end = begin;
    while (end < k && end - begin < kMaxBlock && groups[static_cast<size_t>(end)] == group) ++end;
    ChannelBlock block = {begin, end - begin, group, static_cast<int32_t>(plan.padded_k)};
    plan.blocks.push_back(block);
    plan.steps.push_back(block.steps());
    plan.padded_k += 8 * block.steps();
    begin = end;
  }
  return plan;
}

BlockBounds bound_blocks(const LinearProblem& problem) {
  // Every group may end in one more short block than it has whole ones.
  int64_t groups = (problem.k + problem.group - 1) / problem.group;
  int64_t blocks = problem.k / kMaxBlock + std::min(groups, problem.k);
  return {problem.k + 7 * blocks, blocks};
}

}  // namespace quaver::kernels
