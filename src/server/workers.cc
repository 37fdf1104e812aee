#include "server/workers.h"

namespace quaver::server {

Workers::Workers(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

Workers::~Workers() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::stop() {
  std::deque<std::function<void()>> dropped;  // what they hold is released outside of the mutex
  std::unique_lock lock(mutex_);
  stopped_ = true;
  dropped.swap(tasks_);
  idle_.wait(lock, [this] { return running_ == 0; });
}

void Workers::run(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void Workers::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    ++running_;
    lock.unlock();
    task();
    task = nullptr;  // what it held is released outside of the mutex
    lock.lock();
    if (--running_ == 0) idle_.notify_all();
  }
}

}  // namespace quaver::server
