#include "nn/rank_world.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "nn/c10d_group.h"

namespace quaver::nn {

RankWorld::RankWorld(const RankStore& store, const RankWorldOptions& options)
    : store_(store), options_(options) {
  if (!device().is_cpu()) c10::impl::VirtualGuardImpl(device().type()).setDevice(device());
  const RankSizes& size = sizes();
  const int64_t t = rank() % size.tensor, u = rank() / size.tensor % size.ulysses, c = cfg_index();
  // First, so that a rank that ends while the groups form is noticed by the end of its connection.
  if (rank() > 0) follower_ = std::make_unique<RankFollower>(store, rank(), options.leader);
  auto leader = rank() == 0 ? std::make_unique<RankLeader>(store, size.world(), options.local) : nullptr;
  all_ = join("all", 0, rank(), size.world());
  cfg_ = join("guidance", rank() % (size.tensor * size.ulysses), c, size.cfg);
  tensor_ = join("layers", rank() / size.tensor, t, size.tensor);
  sequence_ = join("tokens", c * size.tensor + t, u, size.ulysses);
  leader_ = std::move(leader);
  if (leader_) on_loss({});
}

RankWorld::~RankWorld() = default;

std::unique_ptr<RankGroup> RankWorld::join(const char* name, int64_t number, int64_t rank, int64_t size) {
  if (size == 1) return nullptr;
  const RankGroupOptions options{.name = cat(name, " ", number),
                                 .rank = rank,
                                 .size = size,
                                 .timeout = options_.timeout,
                                 .local = options_.local};
  return device().is_cpu() ? make_gloo_group(store_, options) : make_nccl_group(store_, options);
}

void RankWorld::on_loss(RankLeader::OnLoss action) {
  leader().on_loss([this, action = std::move(action)] {
    for (RankGroup* group : groups())
      if (group) group->abort();
    if (action) action();
  });
}

void RankWorld::settle() const {
  for (const RankGroup* group : groups())
    if (group) group->settle();
}

}  // namespace quaver::nn
