// What a handler sees of HTTP: a request that is complete, and the way back to its client.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quaver::server {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;
  std::string path;   // percent-decoded, without the query
  std::string query;  // as sent
  Headers headers;    // names in lower case, in order of arrival
  std::string body;
  std::string client;                 // address and port, for the log
  std::vector<std::string> captures;  // what the `{}` of the route's path stood for

  // The value of a header that stands exactly once; null when it is absent or stands twice.
  const std::string* header(std::string_view lower_case_name) const;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  Headers headers;
};

// The way back to one client for one request. Thread safe; calls take effect in the order they are made.
// Either send() once, or start_stream(), write() any number of times, end(). A reply that is dropped without
// an answer sends a 500. Calls after the client has gone do nothing.
class Reply {
 public:
  virtual ~Reply() = default;
  // For send() and start_stream() to come. Values with control characters are dropped.
  virtual void add_header(std::string name, std::string value) = 0;
  virtual void send(HttpResponse response) = 0;
  virtual void start_stream(std::string content_type) = 0;
  virtual void write(std::string piece) = 0;  // never blocks; a client that does not read is cut off
  virtual void end() = 0;
  // Called at most once, in the reply's own order of execution (see post), when the client goes away before
  // the answer is complete; at once when it has gone already.
  virtual void on_gone(std::function<void()> callback) = 0;
  // Runs `task` on a server thread; tasks of one reply never overlap.
  virtual void post(std::function<void()> task) = 0;
};

// Called on an I/O thread; must not block.
using HttpHandler = std::function<void(HttpRequest, std::shared_ptr<Reply>)>;

}  // namespace quaver::server
