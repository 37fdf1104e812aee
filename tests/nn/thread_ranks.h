// Ranks as threads of one process, for tests of what several compute together.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "nn/c10d_group.h"

namespace quaver::nn {

// Runs `body(tensor group, sequence group)` on tensor x sequence threads; a group of one rank is null. What a
// body throws fails the test, and the others with it.
template <class Body>
void run_on_grid(int64_t tensor, int64_t sequence, Body body) {
  const RankStore store = RankStore::of_threads();
  const auto join = [&](const std::string& name, int64_t rank, int64_t size) {
    return size == 1 ? nullptr
                     : make_gloo_group(store.with_prefix(name), {.name = name, .rank = rank, .size = size});
  };
  std::latch joined(tensor * sequence);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < tensor * sequence; ++rank)
    threads.emplace_back([&, t = rank % tensor, s = rank / tensor] {
      bool here = false;
      try {
        const auto across = join("tensor" + std::to_string(s), t, tensor);
        const auto along = join("sequence" + std::to_string(t), s, sequence);
        here = true;
        joined.arrive_and_wait();  // a rank that leaves while another joins would end that one
        body(across.get(), along.get());
      } catch (const std::exception& error) {
        if (!here) joined.count_down();
        ADD_FAILURE() << "rank " << t << ", " << s << ": " << error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
}

// The same for one group.
template <class Body>
void run_on_ranks(int64_t size, Body body) {
  run_on_grid(size, 1, [&](const RankGroup* group, const RankGroup*) { body(group); });
}

}  // namespace quaver::nn
