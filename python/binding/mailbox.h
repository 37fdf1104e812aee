// Events on their way from an engine's thread to Python, which never runs on that thread.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"

namespace quaver::python {

// Thread safe. Its file descriptor is readable while there may be events, so that poll(2), with Python's own
// handling of signals, and event loops wait for it as for anything else.
template <class Event>
class Mailbox {
 public:
  Mailbox() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    require(fd_ >= 0, ErrorKind::kUnavailable, "no file descriptor for events: ", std::strerror(errno));
  }
  ~Mailbox() { close(fd_); }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  int fileno() const { return fd_; }

  void put(Event event) {
    {
      std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
    }
    const uint64_t one = 1;
    while (write(fd_, &one, sizeof one) < 0 && errno == EINTR) {
    }
  }

  // All that have come, in their order. What comes meanwhile makes the descriptor readable again.
  std::vector<Event> take() {
    uint64_t count = 0;
    while (read(fd_, &count, sizeof count) < 0 && errno == EINTR) {
    }
    std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
  }

 private:
  int fd_;
  std::mutex mutex_;
  std::vector<Event> events_;
};

}  // namespace quaver::python
