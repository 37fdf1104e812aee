// Threads for work beside the I/O: what is run, and what is dropped.
#include "server/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <thread>

namespace quaver::server {
namespace {

TEST(Workers, StopWaitsForWhatRunsAndDropsTheRest) {
  std::atomic<int> ran{0};
  std::latch begun(1);
  Workers workers(1);
  workers.run([&] {
    begun.count_down();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ++ran;
  });
  begun.wait();
  const auto held = std::make_shared<int>(0);
  workers.run([&, held] { ran += 10; });
  workers.stop();
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(held.use_count(), 1);
  workers.run([&, held] { ran += 10; });
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Workers, TheEndRunsWhatIsQueued) {
  std::atomic<int> ran{0};
  {
    Workers workers(1);
    for (int i = 0; i < 5; ++i) workers.run([&] { ++ran; });
  }
  EXPECT_EQ(ran, 5);
}

}  // namespace
}  // namespace quaver::server
