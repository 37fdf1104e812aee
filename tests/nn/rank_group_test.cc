// Groups whose ranks are threads: every collective against its definition, uneven parts, ranks that go.
#include "nn/rank_group.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "nn/c10d_group.h"
#include "nn/support.h"

namespace quaver::nn {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

// Runs `body` on a thread per rank, each with its member of one group, which it may let go.
template <class Body>
void on_ranks(int64_t size, Body body, seconds timeout = seconds(20)) {
  const RankStore store = RankStore::of_threads();
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      std::unique_ptr<RankGroup> group =
          make_gloo_group(store, {.name = "test", .rank = rank, .size = size, .timeout = timeout});
      body(group);
    });
  for (std::thread& thread : threads) thread.join();
}

// What rank r brings: the same numbers in every process.
at::Tensor part_of(int64_t r, std::vector<int64_t> shape, at::ScalarType dtype) {
  return randn(std::move(shape), 100 + static_cast<uint64_t>(r)).to(dtype);
}

class RankGroupTest : public testing::TestWithParam<at::ScalarType> {};

TEST_P(RankGroupTest, ReducesToTheSameBitsEverywhere) {
  std::vector<at::Tensor> sums(3);
  on_ranks(3, [&](const std::unique_ptr<RankGroup>& group) {
    const at::Tensor mine = part_of(group->rank(), {5, 7}, GetParam()), before = mine.clone();
    sums[static_cast<size_t>(group->rank())] = group->all_reduce(mine.t()).t();
    EXPECT_TRUE(at::equal(mine, before));
  });
  at::Tensor want = at::zeros({5, 7});
  for (int64_t r = 0; r < 3; ++r) want += part_of(r, {5, 7}, GetParam()).to(at::kFloat);
  const double epsilon = GetParam() == at::kFloat ? 0x1p-24 : 0x1p-8;
  for (const at::Tensor& sum : sums) {
    EXPECT_TRUE(near(sum.to(at::kFloat), want, 3, epsilon));
    EXPECT_TRUE(at::equal(sum, sums.front()));
  }
}

TEST_P(RankGroupTest, BroadcastsInPlaceFromAnyRoot) {
  on_ranks(3, [&](const std::unique_ptr<RankGroup>& group) {
    at::Tensor x = part_of(group->rank(), {4, 3}, GetParam());
    at::Tensor strided = x.t();
    group->broadcast(strided, 2);
    EXPECT_TRUE(at::equal(x, part_of(2, {4, 3}, GetParam())));
  });
}

TEST_P(RankGroupTest, GathersUnevenPartsAlongAnyDimension) {
  const std::vector<int64_t> sizes = {3, 0, 1};
  for (const int64_t dim : {0, 1, 2}) {
    const auto shape = [&](int64_t r) {
      std::vector<int64_t> out = {2, 4, 5};
      out[static_cast<size_t>(dim)] = sizes[static_cast<size_t>(r)];
      return out;
    };
    std::vector<at::Tensor> parts;
    for (int64_t r = 0; r < 3; ++r) parts.push_back(part_of(r, shape(r), GetParam()));
    on_ranks(3, [&](const std::unique_ptr<RankGroup>& group) {
      const at::Tensor all = group->all_gather(parts[static_cast<size_t>(group->rank())], dim, sizes);
      EXPECT_TRUE(at::equal(all, at::cat(parts, dim))) << "dim " << dim;
    });
  }
}

// Rank r sends r + q rows to rank q, numbered 100 r + 10 q and up: nothing from rank 0 to itself.
TEST_P(RankGroupTest, ExchangesUnevenRows) {
  const auto rows = [&](int64_t from, int64_t to) {
    return (100 * from + 10 * to + at::arange(from + to)).to(GetParam()).unsqueeze(1).expand({from + to, 2});
  };
  on_ranks(3, [&](const std::unique_ptr<RankGroup>& group) {
    const int64_t rank = group->rank();
    std::vector<int64_t> counts;
    std::vector<at::Tensor> sent, want;
    for (int64_t q = 0; q < 3; ++q) {
      counts.push_back(rank + q);
      sent.push_back(rows(rank, q));
      want.push_back(rows(q, rank));
    }
    EXPECT_TRUE(at::equal(group->all_to_all(at::cat(sent), counts, counts), at::cat(want)));
  });
}

INSTANTIATE_TEST_SUITE_P(Types, RankGroupTest, testing::Values(at::kFloat, at::kBFloat16));

TEST(RankGroup, SplitsEvenlyTheLargerOnesFirst) {
  EXPECT_EQ(even_split(7, 3), (std::vector<int64_t>{3, 2, 2}));
  EXPECT_EQ(even_split(1, 3), (std::vector<int64_t>{1, 0, 0}));
  EXPECT_EQ(even_split(6, 1), (std::vector<int64_t>{6}));
}

TEST(RankGroup, ARankThatLeavesEndsTheOthersAtOnce) {
  const auto start = Clock::now();
  on_ranks(3, [&](std::unique_ptr<RankGroup>& group) {
    if (group->rank() == 1) return group.reset();
    const Error error = thrown_by([&] { group->all_reduce(at::full({1000}, 1.0)); });
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable) << error.what();
    EXPECT_TRUE(std::string(error.what()).starts_with("the ranks of test have lost one another: "));
  });
  EXPECT_LT(Clock::now() - start, seconds(10));
}

TEST(RankGroup, ARankThatStaysAwayEndsTheOthersInTime) {
  std::atomic<int> waiting{1};
  on_ranks(
      2,
      [&](const std::unique_ptr<RankGroup>& group) {
        if (group->rank() == 1) return waiting.wait(1);
        const Error error = thrown_by([&] { group->all_reduce(at::full({10}, 1.0)); });
        EXPECT_EQ(error.kind(), ErrorKind::kUnavailable) << error.what();
        waiting = 0;
        waiting.notify_all();
      },
      seconds(1));
}

TEST(RankGroup, AnAbortEndsWhoWaitsAndWhoComesLater) {
  std::atomic<int> waiting{1};
  on_ranks(2, [&](const std::unique_ptr<RankGroup>& group) {
    if (group->rank() == 1) return waiting.wait(1);
    std::thread aborter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      group->abort();
    });
    for (int i = 0; i < 2; ++i) {
      const Error error = thrown_by([&] { group->all_reduce(at::full({10}, 1.0)); });
      EXPECT_STREQ(error.what(), "the ranks of test were told to stop");
    }
    aborter.join();
    waiting = 0;
    waiting.notify_all();
  });
}

TEST(RankStore, ServesOnAFreePort) {
  const RankStore store = RankStore::serve(0, true);
  ASSERT_GT(store.port(), 0);
  std::thread other([port = store.port()] {
    const RankStore theirs = RankStore::connect("127.0.0.1", port, seconds(10)).with_prefix("a");
    const auto group = make_gloo_group(theirs, {.name = "pair", .rank = 1, .size = 2});
    EXPECT_TRUE(at::equal(group->all_reduce(at::full({2}, 1.0)), at::full({2}, 3.0)));
  });
  const auto group = make_gloo_group(store.with_prefix("a"), {.name = "pair", .rank = 0, .size = 2});
  EXPECT_TRUE(at::equal(group->all_reduce(at::full({2}, 2.0)), at::full({2}, 3.0)));
  other.join();
}

TEST(RankStore, SaysWhereNoneIs) {
  const Error error = thrown_by([] { RankStore::connect("127.0.0.1", 1, seconds(1)); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_TRUE(std::string(error.what()).starts_with("no ranks' store at 127.0.0.1:1: ")) << error.what();
}

}  // namespace
}  // namespace quaver::nn
