// The processes of the other ranks on this host: this program again, with the same arguments.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace quaver::apps {

using Environment = std::vector<std::pair<std::string, std::string>>;

// One process per environment; its variables come on top of this process's. None outlives this process,
// however that ends, and none hears this terminal's Ctrl-C: what it means is decided here.
class RankProcesses {
 public:
  // To be constructed by the thread that lives longest: its end ends the processes too.
  explicit RankProcesses(const std::vector<Environment>& environments);
  ~RankProcesses();  // waits a moment for them to end, then kills them
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  // Until now the end of one of them ended this process with status 1, since it would wait for it without
  // end; from now on it is told on standard error where a signal was the reason.
  void all_have_come() { all_here_ = true; }

 private:
  void watch(pid_t pid, size_t rank);

  std::atomic<bool> all_here_{false}, closing_{false}, killing_{false};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<pid_t> living_;
  std::vector<std::thread> watchers_;
};

}  // namespace quaver::apps
