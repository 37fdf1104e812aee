#include "base/message_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "base/error.h"

namespace quaver {

namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // more is no message but a stranger

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses look_up(const std::string& host, uint16_t port) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int status = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  require(status == 0, ErrorKind::kUnavailable, host, ": ", ::gai_strerror(status));
  return Addresses(list);
}

int try_connect(const addrinfo* list) {
  for (; list != nullptr; list = list->ai_next) {
    const int fd = ::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && ::connect(fd, list->ai_addr, list->ai_addrlen) == 0) return fd;
    if (fd >= 0) ::close(fd);
  }
  return -1;
}

// Messages are small and waited for.
int without_delay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  return fd;
}

bool read_all(int fd, void* into, size_t size) {
  auto* at = static_cast<char*>(into);
  while (size > 0) {
    const ssize_t got = ::recv(fd, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

MessageSocket MessageSocket::connect(const std::string& host, uint16_t port, std::chrono::seconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  const Addresses addresses = look_up(host, port);
  while (true) {
    if (const int fd = try_connect(addresses.get()); fd >= 0) return MessageSocket(without_delay(fd));
    const int problem = errno;
    require(std::chrono::steady_clock::now() < end, ErrorKind::kUnavailable, host, ":", port,
            ": nobody answers: ", std::strerror(problem));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

MessageSocket& MessageSocket::operator=(MessageSocket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

MessageSocket::~MessageSocket() {
  if (fd_ >= 0) ::close(fd_);
}

void MessageSocket::send(std::string_view message) const {
  const uint64_t size = message.size();
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof size);  // ranks are alike in byte order
  bytes += message;
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t wrote = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (wrote < 0 && errno == EINTR) continue;
    require(wrote > 0, ErrorKind::kUnavailable, "the other process has gone: ", std::strerror(errno));
    sent += static_cast<size_t>(wrote);
  }
}

std::optional<std::string> MessageSocket::receive() const {
  uint64_t size = 0;
  if (!read_all(fd_, &size, sizeof size) || size > kMostBytes) return {};
  std::string message(size, '\0');
  if (!read_all(fd_, message.data(), size)) return {};
  return message;
}

void MessageSocket::hang_up() const { ::shutdown(fd_, SHUT_RDWR); }

MessageListener::MessageListener(bool loopback_only) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(loopback_only ? INADDR_LOOPBACK : INADDR_ANY);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool listens = fd_ >= 0 && ::bind(fd_, generic, size) == 0 && ::listen(fd_, 128) == 0 &&
                       ::getsockname(fd_, generic, &size) == 0;
  const int problem = errno;
  if (!listens && fd_ >= 0) ::close(fd_);
  require(listens, ErrorKind::kUnavailable, "can't listen for other processes: ", std::strerror(problem));
  port_ = ntohs(address.sin_port);
}

MessageListener::~MessageListener() { ::close(fd_); }

MessageSocket MessageListener::accept(std::chrono::seconds patience) const {
  pollfd entry{fd_, POLLIN, 0};
  const int64_t most = std::chrono::milliseconds(patience).count();
  const int ready = ::poll(&entry, 1, static_cast<int>(std::min<int64_t>(most, 1 << 30)));
  const int fd = ready > 0 ? ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC) : -1;
  require(fd >= 0, ErrorKind::kUnavailable, "nobody has come within ", patience.count(), " s");
  return MessageSocket(without_delay(fd));
}

}  // namespace quaver
