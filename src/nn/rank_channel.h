// Rank 0's word to the other ranks and theirs to it, beside the collectives: without limits of time, and with
// news of ranks that end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/message_socket.h"
#include "nn/rank_store.h"

namespace quaver::nn {

// Rank 0's side. Thread safe.
class RankLeader {
 public:
  // Called when the first rank is lost, on a thread of its own; at once where one already is. Must not throw.
  // Once another action is set, the one before it neither runs nor will.
  using OnLoss = std::function<void()>;

  // Waits for all others. `local`: they are on this host.
  RankLeader(const RankStore& store, int64_t size, bool local);
  ~RankLeader();  // the others hear that it has gone
  RankLeader(const RankLeader&) = delete;
  RankLeader& operator=(const RankLeader&) = delete;

  void on_loss(OnLoss action);
  void tell(std::string_view message);  // to all others
  // Until every other rank has said once more that it is ready. Error(kUnavailable) when one is lost instead.
  void await_ready();
  // What a rank that goes on says went wrong, with the rank named; waits for it, but not for ever.
  Error complaint();
  // "rank 1 has ended", "rank 1: <what it said last>"; nothing while all live. With `patience`, waits for it.
  std::optional<std::string> loss(std::chrono::milliseconds patience = {}) const;
  // This rank itself can't go on.
  void give_up(const std::string& why);

 private:
  struct Follower {
    MessageSocket socket;
    int64_t times_ready = 0;
    bool gone = false;
  };

  void watch();
  void hear(size_t index);
  void lose(std::string what);

  std::vector<Follower> followers_;  // of rank 1 and on
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  int64_t times_awaited_ = 0;
  std::vector<Error> complaints_;
  std::optional<std::string> loss_;
  bool closing_ = false;
  std::mutex action_mutex_;  // taken before the other one
  OnLoss on_loss_;
  bool acted_ = false;
  std::thread watcher_;  // last: it uses all of the above
};

// The side of every other rank.
class RankFollower {
 public:
  // Waits for rank 0, which is at `host`, and until all others have come to it.
  RankFollower(const RankStore& store, int64_t rank, const std::string& host);

  // Waits without limit. Error(kUnavailable) when rank 0 has gone.
  std::string hear() const;
  void ready() const;
  void complain(const Error& error) const;     // and go on
  void give_up(const std::string& why) const;  // the last word; nothing happens when rank 0 has gone too

 private:
  MessageSocket socket_;
};

}  // namespace quaver::nn
