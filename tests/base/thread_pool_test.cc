// Loops cover their range once, carry exceptions home, and may nest.
#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace quaver {
namespace {

TEST(ThreadPool, CoversEveryIndexOnce) {
  ThreadPool pool(4);
  for (int64_t n : {1, 2, 7, 64, 1000}) {
    std::vector<std::atomic<int>> hits(static_cast<size_t>(n));
    pool.parallel_for(n, 3, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) hits[static_cast<size_t>(i)].fetch_add(1);
    });
    for (auto& hit : hits) EXPECT_EQ(hit.load(), 1);
  }
}

TEST(ThreadPool, RethrowsTheFirstExceptionAndLivesOn) {
  ThreadPool pool(3);
  auto bad = [](int64_t begin, int64_t) {
    if (begin == 0) throw std::runtime_error("first");
  };
  EXPECT_THROW(pool.parallel_for(100, 1, bad), std::runtime_error);
  std::atomic<int64_t> sum{0};
  pool.parallel_for(100, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  EXPECT_EQ(sum.load(), 100);
}

TEST(ThreadPool, NestedLoopsRunInline) {
  ThreadPool pool(2);
  std::atomic<int64_t> sum{0};
  pool.parallel_for(8, 1, [&](int64_t begin, int64_t end) {
    pool.parallel_for(end - begin, 1, [&](int64_t b, int64_t e) { sum += e - b; });
  });
  EXPECT_EQ(sum.load(), 8);
}

TEST(ThreadPool, ManyShortLoopsAfterSleeping) {
  ThreadPool pool(2);
  std::atomic<int64_t> sum{0};
  for (int i = 0; i < 2000; ++i) pool.parallel_for(2, 1, [&](int64_t b, int64_t e) { sum += e - b; });
  EXPECT_EQ(sum.load(), 4000);
}

TEST(ThreadPool, CallersTakeTurnsAndNoLoopLeaksIntoTheNext) {
  ThreadPool pool(3);
  auto call = [&pool] {
    for (int i = 0; i < 500; ++i) {
      std::atomic<int64_t> sum{0};  // gone when the loop is over: a late worker would be seen by sanitizers
      pool.parallel_for(7, 1, [&](int64_t b, int64_t e) { sum += e - b; });
      ASSERT_EQ(sum.load(), 7);
    }
  };
  std::thread other(call);
  call();
  other.join();
}

}  // namespace
}  // namespace quaver
