// Where the ranks of one world leave what others need to find them: c10d's stores.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace quaver::nn {

// A handle; copies are the same store. Thread safe. Errors are Error(kUnavailable).
class RankStore {
 public:
  struct Impl;

  // For ranks that are threads of this process.
  static RankStore of_threads();
  // Serves it on a port of this host; 0 takes a free one. `loopback_only`: to this host alone.
  static RankStore serve(uint16_t port, bool loopback_only);
  // Waits for a store that somebody serves, so long at most.
  static RankStore connect(const std::string& host, uint16_t port, std::chrono::seconds patience);

  // The same store with names of its own.
  RankStore with_prefix(const std::string& prefix) const;
  uint16_t port() const;  // 0 for threads
  const Impl& impl() const { return *impl_; }

 private:
  explicit RankStore(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace quaver::nn
