// A group over NCCL. One process has one rank on each GPU, so there is one here: results are what was given.
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "nn/c10d_group.h"
#include "nn/support.h"

namespace quaver::nn {
namespace {

TEST(NcclGroupCuda, OneRankGetsWhatItGives) {
  const at::Tensor x = randn({6, 5}, 1).to(at::Device(at::kCUDA, 0));
  const RankStore store = RankStore::of_threads();
  const std::unique_ptr<RankGroup> group = make_nccl_group(store, {.name = "alone", .rank = 0, .size = 1});
  const std::vector<int64_t> whole = {6};
  EXPECT_TRUE(at::equal(group->all_reduce(x), x));
  at::Tensor given = x.clone();
  group->broadcast(given, 0);
  EXPECT_TRUE(at::equal(given, x));
  EXPECT_TRUE(at::equal(group->all_gather(x, 0, whole), x));
  EXPECT_TRUE(at::equal(group->all_to_all(x, whole, whole), x));
  group->settle();
}

}  // namespace
}  // namespace quaver::nn
