#include "nn/rank_store.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "base/error.h"
#include "nn/rank_store_impl.h"

namespace quaver::nn {

namespace {

// How long a rank waits for a note of another one, which may still be loading its part of a model.
constexpr std::chrono::hours kPatience{24};

// c10d listens on all addresses unless it is given a socket that listens already.
int listen_on_loopback(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool listens =
      ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && ::listen(fd, 128) == 0;
  const int problem = errno;
  if (!listens && fd >= 0) ::close(fd);
  require(listens, ErrorKind::kUnavailable, "can't serve the ranks' store on port ", port, ": ",
          std::strerror(problem));
  return fd;
}

uint16_t port_of(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

c10::intrusive_ptr<c10d::TCPStore> open_tcp_store(const std::string& host,
                                                  const c10d::TCPStoreOptions& options) {
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(host, options);
    store->setTimeout(kPatience);
    return store;
  } catch (const std::exception& e) {
    const std::string text = e.what();
    fail(ErrorKind::kUnavailable,
         options.isServer ? "can't serve the ranks' store on port " : "no ranks' store at ",
         options.isServer ? "" : cat(host, ":"), options.port, ": ", text.substr(0, text.find('\n')));
  }
}

}  // namespace

RankStore RankStore::of_threads() {
  // c10d's recorder of collectives is one for the process, and ranks that call it at once break its tables
  // (torch 2.11: FlightRecorder::recordWithResetEnabled). It is made, or not, at the first collective.
  setenv("TORCH_FR_BUFFER_SIZE", "0", 0);
  return RankStore(std::make_shared<const Impl>(Impl{.store = c10::make_intrusive<c10d::HashStore>()}));
}

RankStore RankStore::serve(uint16_t port, bool loopback_only) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = true;
  options.waitWorkers = false;
  if (loopback_only) {
    options.masterListenFd = listen_on_loopback(port);  // the store's own from here on
    options.port = port_of(*options.masterListenFd);
  }
  auto store = open_tcp_store("127.0.0.1", options);
  const uint16_t chosen = store->getPort();
  return RankStore(std::make_shared<const Impl>(Impl{.store = std::move(store), .port = chosen}));
}

RankStore RankStore::connect(const std::string& host, uint16_t port, std::chrono::seconds patience) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.waitWorkers = false;
  options.timeout = patience;
  return RankStore(std::make_shared<const Impl>(Impl{.store = open_tcp_store(host, options), .port = port}));
}

RankStore RankStore::with_prefix(const std::string& prefix) const {
  return RankStore(std::make_shared<const Impl>(
      Impl{.store = c10::make_intrusive<c10d::PrefixStore>(prefix, impl_->store), .port = impl_->port}));
}

uint16_t RankStore::port() const { return impl_->port; }

}  // namespace quaver::nn
