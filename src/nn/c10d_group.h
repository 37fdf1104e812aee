// Groups of ranks over c10d: Gloo for tensors of the CPU, NCCL for those of GPUs.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "nn/rank_group.h"
#include "nn/rank_store.h"

namespace quaver::nn {

struct RankGroupOptions {
  std::string name;  // of its own within the store; errors carry it
  int64_t rank = 0, size = 1;
  // How long a collective waits for ranks that live but do not call it. A rank that has ended is noticed at
  // once.
  std::chrono::seconds timeout{30};
  bool local = true;  // all ranks are on this host
};

// Returns when all ranks have called it. Several hosts: Gloo takes the interface that GLOO_SOCKET_IFNAME
// names, else the address of this host's name. Error(kUnavailable) when a rank does not come.
std::unique_ptr<RankGroup> make_gloo_group(const RankStore& store, const RankGroupOptions& options);

// For tensors of the current CUDA device. Error(kUnsupported) in builds without NCCL.
std::unique_ptr<RankGroup> make_nccl_group(const RankStore& store, const RankGroupOptions& options);

}  // namespace quaver::nn
