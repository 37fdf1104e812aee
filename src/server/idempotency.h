// Repeated POSTs under one Idempotency-Key: the first one is computed, and all get its answer.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "server/http_types.h"

namespace quaver::server {

// Answers that another try might change (429 and 5xx) are not kept. Nor are streams: they go to the client
// that asked first, and one that repeats the key meanwhile gets 409. A computation under a key goes on when
// its client leaves, so that the next try finds the answer. Thread safe; a copy of its pointer lives in every
// reply.
class IdempotentAnswers : public std::enable_shared_from_this<IdempotentAnswers> {
 public:
  struct Limits {
    size_t max_bytes = 256 << 20;  // of kept bodies together; the oldest go first
    size_t max_count = 1024;
    std::chrono::seconds keep{600};
  };
  explicit IdempotentAnswers(Limits limits) : limits_(limits) {}

  // The reply that the handler is to use: `reply` itself where the request has no key, one that remembers
  // where it is the first under its key, null where an earlier request answers this one, now or later. Throws
  // ApiError: 400 for a key of no or more than 255 characters, 422 for one that came with another body.
  std::shared_ptr<Reply> admit(const HttpRequest& request, std::shared_ptr<Reply> reply);

 private:
  class Keeper;
  struct Entry;
  using EntryPtr = std::shared_ptr<Entry>;

  void forget(const std::string& key);  // with the lock held
  void make_room();                     // the same

  const Limits limits_;
  std::mutex mutex_;
  std::map<std::string, EntryPtr> entries_;
  std::list<std::string> kept_;  // keys of answers that are there, the oldest first
  size_t bytes_ = 0;
};

}  // namespace quaver::server
