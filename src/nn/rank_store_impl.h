// c10d's store behind RankStore, for the files that make groups: its headers take seconds to read.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "nn/rank_store.h"

namespace quaver::nn {

struct RankStore::Impl {
  c10::intrusive_ptr<c10d::Store> store;
  uint16_t port = 0;
};

}  // namespace quaver::nn
