#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/env.h"
#include "base/error.h"

namespace quaver {
namespace {

constexpr int kSpins = 8000;  // about 100 microseconds: more than the gap between two layers of a decode step
constexpr int kWaitSpins = 1000;  // then the caller yields, in case a worker in the loop lost its processor

thread_local bool t_inside_loop = false;

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

struct ThreadPool::State {
  std::vector<std::thread> workers;
  std::mutex turn;   // one loop at a time
  std::mutex mutex;  // guards sleeping and waking
  std::condition_variable wake;
  std::atomic<bool> stop{false};
  std::atomic<int> sleepers{0};

  // generation of the loop in flight << 17 | open << 16 | workers inside. The caller waits for the workers
  // inside, never for one that has not come: on a busy machine that one may not run for many milliseconds.
  static constexpr uint64_t kOpen = 1u << 16, kInside = kOpen - 1, kGeneration = kOpen << 1;
  std::atomic<uint64_t> gate{0};

  // The loop in flight; written by its caller while the gate is shut and nobody is inside.
  const std::function<void(int64_t, int64_t)>* body = nullptr;
  int64_t n = 0, chunk = 1;
  std::atomic<int64_t> next{0};
  std::exception_ptr error;
  std::mutex error_mutex;

  void drain() {
    t_inside_loop = true;
    for (;;) {
      int64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
      if (begin >= n) break;
      try {
        (*body)(begin, std::min(n, begin + chunk));
      } catch (...) {
        std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
      }
    }
    t_inside_loop = false;
  }

  bool enter() {
    uint64_t seen = gate.load();
    while ((seen & kOpen) != 0)
      if (gate.compare_exchange_weak(seen, seen + 1)) return true;
    return false;
  }

  bool new_since(uint64_t seen) const { return gate.load() / kGeneration != seen || stop.load(); }

  bool wait_for_work(uint64_t seen) {
    for (int i = 0; i < kSpins; ++i) {
      if (new_since(seen)) return !stop.load();
      pause_cpu();
    }
    std::unique_lock lock(mutex);
    sleepers.fetch_add(1);
    wake.wait(lock, [&] { return new_since(seen); });
    sleepers.fetch_sub(1);
    return !stop.load();
  }

  void work() {
    uint64_t seen = 0;
    while (wait_for_work(seen)) {
      seen = gate.load() / kGeneration;
      if (!enter()) continue;
      drain();
      gate.fetch_sub(1);
    }
  }

  void open_gate() {
    gate.fetch_add(kGeneration + kOpen);
    if (sleepers.load() == 0) return;
    std::lock_guard lock(mutex);
    wake.notify_all();
  }

  void shut_gate() {
    gate.fetch_sub(kOpen);
    for (int i = 0; (gate.load() & kInside) != 0; ++i) {
      if (i < kWaitSpins)
        pause_cpu();
      else
        std::this_thread::yield();
    }
  }
};

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>()) {
  for (int i = 1; i < num_threads; ++i) state_->workers.emplace_back([this] { state_->work(); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stop.store(true);
    state_->wake.notify_all();
  }
  for (auto& worker : state_->workers) worker.join();
}

int ThreadPool::num_threads() const { return static_cast<int>(state_->workers.size()) + 1; }

void ThreadPool::parallel_for(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (n <= 0) return;
  if (t_inside_loop || n <= grain || state_->workers.empty()) return body(0, n);
  std::lock_guard turn(state_->turn);
  State& s = *state_;
  int64_t threads = num_threads();
  s.body = &body;
  s.n = n;
  s.chunk = std::max(grain, (n + threads * 4 - 1) / (threads * 4));
  s.error = nullptr;
  s.next.store(0);
  s.open_gate();
  s.drain();
  s.shut_gate();
  if (s.error) std::rethrow_exception(s.error);
}

namespace {

int g_num_threads = 0;

int default_num_threads() {
  if (g_num_threads > 0) return g_num_threads;
  if (auto wanted = env_int("QUAVER_NUM_THREADS")) {
    require(*wanted >= 1 && *wanted <= 1024, ErrorKind::kInvalidInput,
            "QUAVER_NUM_THREADS must be between 1 and 1024, got ", *wanted);
    return static_cast<int>(*wanted);
  }
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

ThreadPool& global_thread_pool() {
  static ThreadPool pool(default_num_threads());
  return pool;
}

void set_global_num_threads(int num_threads) { g_num_threads = num_threads; }

}  // namespace quaver
