// Whole messages over TCP between processes that trust each other: a length, then so many bytes.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace quaver {

// Owns the connection. One thread may send while another receives.
class MessageSocket {
 public:
  // Error(kUnavailable) when nobody answers for so long.
  static MessageSocket connect(const std::string& host, uint16_t port, std::chrono::seconds patience);
  explicit MessageSocket(int fd) : fd_(fd) {}
  MessageSocket(MessageSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  MessageSocket& operator=(MessageSocket&& other) noexcept;
  ~MessageSocket();

  // Error(kUnavailable) when the other side has gone.
  void send(std::string_view message) const;
  // Waits without limit. Nothing: the other side has gone.
  std::optional<std::string> receive() const;
  // From any thread: both sides see the other one as gone.
  void hang_up() const;
  int fd() const { return fd_; }

 private:
  int fd_;
};

class MessageListener {
 public:
  // On a free port of this host: of all its addresses, or of the loopback alone.
  explicit MessageListener(bool loopback_only);
  ~MessageListener();
  MessageListener(const MessageListener&) = delete;
  MessageListener& operator=(const MessageListener&) = delete;

  uint16_t port() const { return port_; }
  // Error(kUnavailable) when nobody comes for so long.
  MessageSocket accept(std::chrono::seconds patience) const;

 private:
  int fd_;
  uint16_t port_ = 0;
};

}  // namespace quaver
