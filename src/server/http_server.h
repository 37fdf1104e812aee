// Listens on one address and turns connections into requests: limits, timeouts, keep-alive, orderly stop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/http_types.h"

namespace quaver::server {

struct HttpLimits {
  size_t header_bytes = size_t{64} << 10;         // above: 431
  size_t body_bytes = size_t{64} << 20;           // above: 413
  size_t total_body_bytes = size_t{512} << 20;    // of all requests under way; above: 503
  size_t pipelined_bytes = size_t{1} << 20;       // sent ahead of an answer; above: closed
  size_t stream_backlog_bytes = size_t{4} << 20;  // written and not taken by the client; above: closed
  int connections = 1024;                         // above: 503
  double idle_s = 75;                             // between two requests
  double header_s = 15;                           // from a request's first byte to the end of its header
  double body_s = 120;                            // from there to the end of the body
  double write_s = 60;                            // without the client taking a single byte
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0 = any free one
  int io_threads = 2;
  HttpLimits limits;
  bool access_log = true;  // one line per answer: client, method, path, status, bytes, time
  std::function<void(int status)> on_answer;  // called as an answer begins; thread safe, may be null
};

// Thread safe except for construction and destruction. The handler is called from construction of the threads
// (start) until stop() has returned; stop() ends the object: nothing but its destructor may follow.
class HttpServer {
 public:
  // Binds and listens. Throws Error(kUnavailable) that names host, port and the system's reason.
  HttpServer(HttpOptions options, HttpHandler handler);
  ~HttpServer();  // stops

  uint16_t port() const;
  void start();
  // From now on every answer closes its connection, and idle connections are closed.
  void drain();
  // Requests whose answer is not complete.
  int live_requests() const;
  // True when every answer was written to its end before `seconds` had passed.
  bool wait_until_idle(double seconds);
  // Closes everything; requests under way see their client gone. Returns when the threads have ended.
  void stop();
  // Calls `task` on an I/O thread every `seconds` until stop(). Before start() only.
  void every(double seconds, std::function<void()> task);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quaver::server
