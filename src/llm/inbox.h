// The queue between the threads that submit requests and the one that runs them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "llm/live_request.h"

namespace quaver::llm {

// Thread safe. A request counts as live from submit() to ended(); its id is taken until release_id().
class Inbox {
 public:
  struct Commands {
    std::vector<std::unique_ptr<LiveRequest>> arrivals;  // in order of submission, `sequence.arrival` set
    std::vector<std::string> aborts;
    bool abort_all = false, stop = false;
    bool empty() const { return arrivals.empty() && aborts.empty() && !abort_all && !stop; }
  };

  explicit Inbox(int64_t max_queue) : max_queue_(max_queue) {}

  // Any thread.

  // Throws Error(kUnavailable) when `max_queue` requests wait already or close() was called,
  // Error(kInvalidInput) when a live request has this id.
  void submit(std::unique_ptr<LiveRequest> live);
  void abort(const std::string& id);  // ids that don't live are ignored
  void abort_all();
  void close();  // no more requests
  void stop();   // close(), and the engine's thread is to end
  // False when requests still live after `seconds`.
  bool wait_until_idle(double seconds);
  int64_t num_queued() const;  // not yet taken

  // The engine's thread.

  // What has come in since the last call; with `wait`, not before there is something.
  Commands take(bool wait);
  void set_waiting(int64_t waiting);  // requests taken but not admitted yet
  void release_id(const std::string& id);
  void ended(int64_t count);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_, idle_;
  Commands commands_;
  std::unordered_set<std::string> ids_;
  uint64_t last_arrival_ = 0;
  int64_t max_queue_, waiting_ = 0, live_ = 0;
  bool closed_ = false;
};

}  // namespace quaver::llm
