// A client that sends exactly the bytes it is told to, and reads answers with their framing.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/cat.h"
#include "base/json.h"

namespace quaver::server::testing {

struct Answer {
  int status = 0;                              // 0 = the connection closed without an answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  json parsed() const { return json::parse(body); }
};

class HttpClient {
 public:
  explicit HttpClient(uint16_t port, int receive_buffer = 0) {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("cannot connect");
  }
  ~HttpClient() { close(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  // Ends the connection with a reset instead of an orderly close.
  void reset() {
    linger hard{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close();
  }
  void half_close() { ::shutdown(socket_, SHUT_WR); }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  // False at the end of the connection or when nothing came for `seconds`.
  bool receive(double seconds = 20) {
    pollfd entry{socket_, POLLIN, 0};
    if (::poll(&entry, 1, static_cast<int>(seconds * 1000)) <= 0) return false;
    char chunk[65536];
    ssize_t n = ::recv(socket_, chunk, sizeof chunk, 0);
    if (n <= 0) return false;
    in_.append(chunk, static_cast<size_t>(n));
    return true;
  }
  // True when the other side closes within `seconds`; what comes before is kept.
  bool closed_within(double seconds) {
    auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < end) {
      pollfd entry{socket_, POLLIN, 0};
      if (::poll(&entry, 1, 20) <= 0) continue;
      char chunk[65536];
      ssize_t n = ::recv(socket_, chunk, sizeof chunk, 0);
      if (n <= 0) return true;
      in_.append(chunk, static_cast<size_t>(n));
    }
    return false;
  }

  Answer read_answer(bool head = false) {
    Answer answer;
    size_t end;
    while ((end = in_.find("\r\n\r\n")) == std::string::npos)
      if (!receive()) return answer;
    parse_head(answer, in_.substr(0, end));
    in_.erase(0, end + 4);
    if (answer.status == 100) return answer;
    if (head || answer.status == 204 || answer.status == 304) return answer;
    if (answer.headers.contains("transfer-encoding"))
      read_chunks(answer.body);
    else if (answer.headers.contains("content-length"))
      read_length(answer.body, std::stoul(answer.headers["content-length"]));
    else
      while (receive() || (std::swap(answer.body, in_), false)) {
      }
    return answer;
  }

  Answer request(std::string_view method, std::string_view path, std::string_view body = "",
                 std::string_view headers = "") {
    send(format(method, path, body, headers));
    return read_answer(method == "HEAD");
  }
  static std::string format(std::string_view method, std::string_view path, std::string_view body = "",
                            std::string_view headers = "") {
    std::string out = cat(method, " ", path, " HTTP/1.1\r\nHost: test\r\n", headers);
    if (!body.empty()) out += cat("Content-Type: application/json\r\nContent-Length: ", body.size(), "\r\n");
    return cat(out, "\r\n", body);
  }

  std::string& input() { return in_; }

 private:
  static void parse_head(Answer& answer, const std::string& head) {
    answer.status = std::stoi(head.substr(9, 3));
    for (size_t at = head.find("\r\n"); at != std::string::npos;) {
      size_t next = head.find("\r\n", at + 2);
      std::string line = head.substr(at + 2, next == std::string::npos ? next : next - at - 2);
      std::string name = line.substr(0, line.find(':'));
      for (char& c : name) c = static_cast<char>(std::tolower(c));
      answer.headers[name] = line.substr(line.find(':') + 2);
      at = next;
    }
  }
  void read_length(std::string& body, size_t length) {
    while (in_.size() < length && receive()) {
    }
    body = in_.substr(0, length);
    in_.erase(0, length);
  }
  void read_chunks(std::string& body) {
    while (true) {
      size_t line;
      while ((line = in_.find("\r\n")) == std::string::npos)
        if (!receive()) return;
      size_t length = std::stoul(in_.substr(0, line), nullptr, 16);
      in_.erase(0, line + 2);
      while (in_.size() < length + 2)
        if (!receive()) return;
      body += in_.substr(0, length);
      in_.erase(0, length + 2);
      if (length == 0) return;
    }
  }

  int socket_ = -1;
  std::string in_;
};

// The `data:` payloads of an event stream.
inline std::vector<std::string> events_of(const std::string& body) {
  std::vector<std::string> out;
  for (size_t at = 0; at < body.size();) {
    size_t end = body.find("\n\n", at);
    if (end == std::string::npos) break;
    std::string line = body.substr(at, end - at);
    out.push_back(line.starts_with("data: ") ? line.substr(6) : "malformed: " + line);
    at = end + 2;
  }
  return out;
}

}  // namespace quaver::server::testing
