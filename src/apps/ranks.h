// Flags that divide a picture model's transformer among processes, and this process's place among them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "apps/command.h"
#include "apps/rank_process.h"
#include "nn/rank_world.h"
#include "pipeline/open_image_pipeline.h"

namespace quaver::apps {

struct RankFlags {
  nn::RankSizes sizes;
  int64_t timeout_s = 30;
};

// "--cfg-parallel-size", "--tensor-parallel-size", "--ulysses-degree" ("--usp") and "--rank-timeout", for
// models of pictures.
void add_rank_flags(CLI::App& app, RankFlags& flags);

// The ranks of this job: a world of one where the flags say so. Without the environment of torchrun this
// process is rank 0 and starts the others on this host; with it, it is the rank that RANK says.
class Ranks {
 public:
  // Waits until all have come. `device` as --device; each rank on a GPU has the one of its LOCAL_RANK.
  // Error(kInvalidInput) when WORLD_SIZE is not what the flags make.
  Ranks(const RankFlags& flags, const std::string& device);
  ~Ranks();

  nn::RankWorld* world() { return world_.get(); }  // null: one process alone
  bool leads() const { return !world_ || world_->rank() == 0; }
  const std::string& device() const { return device_; }
  // Of rank 0: called once a rank is lost, on another thread.
  void on_loss(std::function<void()> action);
  bool lost() const { return world_ && world_->rank() == 0 && world_->leader().loss(); }

 private:
  std::string device_;
  std::unique_ptr<RankProcesses> processes_;
  std::unique_ptr<nn::RankWorld> world_;
};

// What a rank that does not lead does; returns the exit status.
int follow(const pipeline::ImagePipelineOptions& options);

}  // namespace quaver::apps
