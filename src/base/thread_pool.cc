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

constexpr int kSpins = 20000;  // some tens of microseconds: the gap between two layers of a decode step

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
  std::atomic<uint64_t> generation{0};
  std::atomic<bool> stop{false};
  std::atomic<int> sleepers{0};

  // The loop in flight; written by its caller before `generation` is raised.
  const std::function<void(int64_t, int64_t)>* body = nullptr;
  int64_t n = 0, chunk = 1;
  std::atomic<int64_t> next{0};
  std::atomic<int> running{0};
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

  bool wait_for_work(uint64_t seen) {
    for (int i = 0; i < kSpins; ++i) {
      if (generation.load(std::memory_order_acquire) != seen || stop.load()) return !stop.load();
      pause_cpu();
    }
    std::unique_lock lock(mutex);
    sleepers.fetch_add(1);
    wake.wait(lock, [&] { return generation.load() != seen || stop.load(); });
    sleepers.fetch_sub(1);
    return !stop.load();
  }

  void work() {
    uint64_t seen = 0;
    while (wait_for_work(seen)) {
      seen = generation.load(std::memory_order_acquire);
      drain();
      running.fetch_sub(1, std::memory_order_release);
    }
  }

  void publish() {
    generation.fetch_add(1);
    if (sleepers.load() == 0) return;
    std::lock_guard lock(mutex);
    wake.notify_all();
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
  s.running.store(static_cast<int>(s.workers.size()));
  s.next.store(0);
  s.publish();
  s.drain();
  while (s.running.load(std::memory_order_acquire) != 0) pause_cpu();
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
