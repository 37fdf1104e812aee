// Saves most of the transformer's work on steps that change little.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "models/dit/dit.h"

namespace quaver::diffusion {

// Both run the first block (or its entrance) on every step and compare with the step before; where the
// relative L1 change stays below the threshold, the remaining blocks are taken to add what they added last
// time.
struct StepCacheSettings {
  enum class Kind {
    kNone,
    kFirstBlock,  // by what the first block adds (first-block cache, ParaAttention)
    kTeaCache,  // by the first block's modulated input, accumulated (Liu et al., "Timestep embedding tells",
                // 2024)
  };
  Kind kind = Kind::kNone;
  double threshold = 0;
  std::vector<double> polynomial;  // of kTeaCache, highest power first; empty: the identity
};

// "first-block", "teacache", either with ":threshold"; "none". Error(kInvalidInput) otherwise.
StepCacheSettings parse_step_cache(std::string_view text);

// Where several compute a pass together: the sum of what each of them has, the same bits everywhere.
using SumOverRanks = std::function<at::Tensor(const at::Tensor&)>;

// The state of one run over the steps. Not thread safe.
class StepCache {
 public:
  explicit StepCache(StepCacheSettings settings);

  // The transformer's velocity, all of it or as the settings allow. With `sum`, all ranks decide alike: by
  // the change of what they have together.
  at::Tensor forward(const models::Dit& dit, const models::DitInput& input, const SumOverRanks& sum = {});
  const StepCacheSettings& settings() const { return settings_; }
  int64_t skipped() const { return skipped_; }  // steps whose later blocks did not run
  uint64_t run() const { return run_; }         // a number of its own within the process

 private:
  bool may_skip(const at::Tensor& signal, const SumOverRanks& sum);
  at::Tensor finish(const models::Dit& dit, models::DitState state, const models::DitContext& context,
                    bool skip);

  StepCacheSettings settings_;
  at::Tensor last_signal_, added_;  // what the later blocks added to the picture's stream
  double accumulated_ = 0;
  int64_t skipped_ = 0;
  uint64_t run_;
};

}  // namespace quaver::diffusion
