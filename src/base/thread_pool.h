// The worker threads that kernels and readers share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace quaver {

// A fixed set of threads; the caller of parallel_for works too. One parallel_for runs at a time per pool
// (others wait their turn), and a nested call runs inline. Workers spin briefly before they sleep, since
// decode steps issue hundreds of short loops.
class ThreadPool {
 public:
  explicit ThreadPool(int num_threads);  // the caller counts as one
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  // Calls body(begin, end) on disjoint ranges that cover [0, n), each at least `grain` long but the last. The
  // first exception is rethrown here after all ranges ended.
  void parallel_for(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The process-wide pool: `QUAVER_NUM_THREADS`, else the processors this process may run on.
ThreadPool& global_thread_pool();

// Before first use of the pool only.
void set_global_num_threads(int num_threads);

}  // namespace quaver
