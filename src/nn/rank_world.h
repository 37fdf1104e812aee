// The ranks that compute one transformer together: how many share what, and the groups they form.
#pragma once

#include <c10/core/Device.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "nn/rank_channel.h"
#include "nn/rank_group.h"
#include "nn/rank_store.h"

namespace quaver::nn {

// The world is their product. Rank = (cfg index * ulysses + ulysses index) * tensor + tensor index.
struct RankSizes {
  int64_t cfg = 1;      // branches of guidance
  int64_t tensor = 1;   // parts of each large layer
  int64_t ulysses = 1;  // parts of the sequence of tokens
  int64_t world() const { return cfg * tensor * ulysses; }
};

struct RankWorldOptions {
  RankSizes sizes;
  int64_t rank = 0;
  c10::Device device = c10::kCPU;
  std::chrono::seconds timeout{30};  // as RankGroupOptions
  std::string leader = "127.0.0.1";  // where rank 0 is
  bool local = true;                 // all ranks are on this host
};

class RankWorld {
 public:
  // Every rank constructs one at the same time; waits for the others.
  RankWorld(const RankStore& store, const RankWorldOptions& options);
  ~RankWorld();
  RankWorld(const RankWorld&) = delete;
  RankWorld& operator=(const RankWorld&) = delete;

  int64_t rank() const { return options_.rank; }
  const RankSizes& sizes() const { return options_.sizes; }
  c10::Device device() const { return options_.device; }
  int64_t cfg_index() const { return rank() / (sizes().ulysses * sizes().tensor); }

  const RankGroup& all() const { return *all_; }
  // Null where there is one rank.
  const RankGroup* cfg_ranks() const { return cfg_.get(); }
  const RankGroup* tensor_ranks() const { return tensor_.get(); }
  const RankGroup* sequence_ranks() const { return sequence_.get(); }

  RankLeader& leader() { return *leader_; }              // of rank 0
  const RankFollower& follower() { return *follower_; }  // of every other rank
  // When a rank is lost, those who wait in a collective throw first, then `action` is called (RankLeader). Of
  // rank 0.
  void on_loss(RankLeader::OnLoss action);
  // Returns when the results of all collectives are there.
  void settle() const;

 private:
  std::unique_ptr<RankGroup> join(const char* name, int64_t number, int64_t rank, int64_t size);
  std::array<RankGroup*, 4> groups() const {
    return {all_.get(), cfg_.get(), tensor_.get(), sequence_.get()};
  }

  const RankStore store_;
  const RankWorldOptions options_;
  std::unique_ptr<RankGroup> all_, cfg_, tensor_, sequence_;
  std::unique_ptr<RankLeader> leader_;  // after the groups, which its thread may abort
  std::unique_ptr<RankFollower> follower_;
};

}  // namespace quaver::nn
