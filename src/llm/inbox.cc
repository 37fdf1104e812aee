// Submission, cancellation and shutdown under one mutex.
#include "llm/inbox.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace quaver::llm {

void Inbox::submit(std::unique_ptr<LiveRequest> live) {
  std::lock_guard lock(mutex_);
  require(!closed_, ErrorKind::kUnavailable, "the server is shutting down and takes no new requests");
  int64_t queued = waiting_ + static_cast<int64_t>(commands_.arrivals.size());
  require(queued < max_queue_, ErrorKind::kUnavailable, "the queue is full (", max_queue_,
          " requests are waiting); try again later");
  if (!ids_.insert(live->request.id).second)
    throw Error(ErrorKind::kInvalidInput,
                cat("request_id '", live->request.id, "' belongs to a request under way"), "request_id");
  live->sequence.arrival = ++last_arrival_;
  commands_.arrivals.push_back(std::move(live));
  ++live_;
  changed_.notify_one();
}

void Inbox::abort(const std::string& id) {
  std::lock_guard lock(mutex_);
  if (!ids_.contains(id)) return;
  commands_.aborts.push_back(id);
  changed_.notify_one();
}

void Inbox::abort_all() {
  std::lock_guard lock(mutex_);
  commands_.abort_all = true;
  changed_.notify_one();
}

void Inbox::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

void Inbox::stop() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  commands_.stop = true;
  changed_.notify_one();
}

bool Inbox::wait_until_idle(double seconds) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return live_ == 0; });
}

int64_t Inbox::num_queued() const {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(commands_.arrivals.size());
}

Inbox::Commands Inbox::take(bool wait) {
  std::unique_lock lock(mutex_);
  if (wait) changed_.wait(lock, [&] { return !commands_.empty(); });
  // What is taken still waits until the engine says otherwise, or the queue's limit could be overrun
  // meanwhile.
  waiting_ += static_cast<int64_t>(commands_.arrivals.size());
  Commands taken = std::exchange(commands_, {});
  commands_.stop = taken.stop;
  return taken;
}

void Inbox::set_waiting(int64_t waiting) {
  std::lock_guard lock(mutex_);
  waiting_ = waiting;
}

void Inbox::release_id(const std::string& id) {
  std::lock_guard lock(mutex_);
  ids_.erase(id);
  std::erase(commands_.aborts, id);  // or it would hit the next request of this name
}

void Inbox::ended(int64_t count) {
  std::lock_guard lock(mutex_);
  live_ -= count;
  if (live_ == 0) idle_.notify_all();
}

}  // namespace quaver::llm
