// A transformer that several ranks compute together: rank 0 has the inputs and gets the outputs, the others
// hold nothing but their part of the weights.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "diffusion/step_cache.h"
#include "models/dit/dit.h"
#include "nn/rank_world.h"

namespace quaver::diffusion {

// The tensors of a DitInput in the order in which they travel.
constexpr size_t kInputTensors = 7;

// Rank 0's side. Thread safe: passes run one after the other.
class TransformerRanks {
 public:
  // Borrows both. Waits until the others have loaded their parts; Error(kUnavailable) says which did not.
  TransformerRanks(nn::RankWorld& world, const models::Dit& dit);
  ~TransformerRanks();  // the others let go of their parts

  // The velocity. The batch is divided among the ranks of guidance; where it is of one entry, those beyond
  // the first do nothing. Error(kInternal) names the rank that failed; once one is lost, every pass fails.
  at::Tensor forward(StepCache& cache, const models::DitInput& input);
  bool lost() const { return world_.leader().loss().has_value(); }

 private:
  void send(StepCache& cache, const models::DitInput& input);

  nn::RankWorld& world_;
  const models::Dit& dit_;
  std::mutex mutex_;
  std::array<at::Tensor, kInputTensors> sent_;  // what the others have
};

// What every other rank does with its part of the transformer: computes passes until rank 0 lets go of it.
// Throws what went wrong, of which rank 0 has been told; Error(kUnavailable) when that has gone.
void follow_transformer(nn::RankWorld& world, const models::Dit& dit, const StepCacheSettings& cache);

}  // namespace quaver::diffusion
