#include "eval/trajectory_metrics.h"

#include <algorithm>
#include <vector>

namespace quaver::eval {

Difference latent_difference(const at::Tensor& reference, const at::Tensor& candidate) {
  require(reference.sizes() == candidate.sizes(), ErrorKind::kInvalidInput,
          "latents to compare must have one shape, got ", reference.sizes().vec(), " and ",
          candidate.sizes().vec());
  const float* a = reference.const_data_ptr<float>();
  const float* b = candidate.const_data_ptr<float>();
  DifferenceSums sums;
  for (int64_t i = 0; i < reference.numel(); ++i) sums.add(a[i], b[i]);
  const auto [low, high] = std::minmax_element(a, a + reference.numel());
  return sums.difference(double(*high) - double(*low));
}

void TrajectoryPairs::compare(size_t picture, const at::Tensor& latents) {
  std::deque<at::Tensor>& kept = kept_.at(picture);
  require(!kept.empty(), ErrorKind::kInvalidInput, "the candidate takes more steps than the reference's ",
          differences_[picture].size());
  differences_[picture].push_back(latent_difference(kept.front(), latents));
  kept.pop_front();
}

}  // namespace quaver::eval
