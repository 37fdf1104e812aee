// Gauges, counters and latencies of an engine, and where its thread records them.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "llm/request.h"

namespace quaver::llm {

// Gauges and counters since start, for /metrics.
struct Stats {
  int64_t running = 0, waiting = 0;
  int64_t finished_stop = 0, finished_length = 0, finished_abort = 0, finished_error = 0;
  int64_t prompt_tokens = 0, generation_tokens = 0, cached_prompt_tokens = 0;
  int64_t preemptions = 0, non_finite = 0;
  double kv_cache_usage = 0;  // share of blocks in use by live requests, 0 ... 1
  // Observations since the last call. Where nobody asks, only the first kMaxObservations are kept.
  std::vector<double> time_to_first_token_s, inter_token_s, e2e_s;
};

inline constexpr size_t kMaxObservations = size_t{1} << 18;

// Thread safe. The engine's thread changes it once per step.
class StatsBoard {
 public:
  // Adds a step's counters and observations, takes over its gauges and totals (running, waiting, preemptions,
  // usage).
  void add(const Stats& step);
  // Observations are handed over, the rest is copied.
  Stats take();

 private:
  std::mutex mutex_;
  Stats stats_;
};

}  // namespace quaver::llm
