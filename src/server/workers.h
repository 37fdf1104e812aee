// A few threads for work that would hold up the I/O threads: rendering, tokenizing, checking large bodies.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace quaver::server {

// Tasks must not throw. Thread safe.
class Workers {
 public:
  explicit Workers(int threads);
  ~Workers();  // runs what is queued, then joins
  void run(std::function<void()> task);
  // Waits for the tasks that run; drops those that are queued or come later.
  void stop();

 private:
  void work();
  std::mutex mutex_;
  std::condition_variable changed_, idle_;
  std::deque<std::function<void()>> tasks_;
  int running_ = 0;
  bool stopping_ = false, stopped_ = false;  // no more will come; none is to be run
  std::vector<std::thread> threads_;
};

}  // namespace quaver::server
