// One HTTP request and its answer, through libcurl.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

struct sockaddr;

namespace quaver::hub {

struct HttpRequest {
  std::string url;
  bool head = false;
  std::string token;        // sent as a bearer token when not empty
  uint64_t first_byte = 0;  // more than 0: asks for the rest from here on
  int64_t max_seconds = 0;  // of the whole transfer; 0: no limit
  // Asked about each address before anything is sent to it; no proxy is used then. Null: any may be reached.
  bool (*may_connect)(const sockaddr& address) = nullptr;
};

struct HttpReply {
  int status = 0;
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case
  std::string redirect;                                     // absolute URL of a 3xx answer, else empty

  // Empty when the header is absent.
  std::string_view header(std::string_view name) const;
};

// Worth another try: the connection broke, or the server is busy. `wait_seconds` is what it asked for, -1
// when it did not.
class TransientError : public Error {
 public:
  TransientError(std::string message, int64_t wait = -1)
      : Error(ErrorKind::kUnavailable, std::move(message)), wait_seconds(wait) {}
  int64_t wait_seconds;
};

// `may_connect` said no to every address that the name stands for.
class AddressRefused : public Error {
 public:
  explicit AddressRefused(std::string message) : Error(ErrorKind::kInvalidInput, std::move(message)) {}
};

// Keeps its connection for the next request. For one thread at a time. Proxies and certificates are those of
// the environment: https_proxy, no_proxy, SSL_CERT_FILE.
class HttpConnection {
 public:
  // `stall_seconds` without a byte count as a broken connection.
  explicit HttpConnection(int stall_seconds);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Called for each piece of the body, after all headers have come; what it throws ends the transfer and
  // reaches the caller of `send`.
  using BodySink = std::function<void(const HttpReply&, std::span<const std::byte>)>;

  // Follows no redirect. Any status is a reply; a connection that fails or breaks off is a TransientError, a
  // certificate that does not hold is Error(kUnavailable), an address that may not be reached AddressRefused.
  HttpReply send(const HttpRequest& request, const BodySink& body);

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

// "https://host:port" of a URL, in lower case and with the port spelled out; Error(kBadFile) when it is no
// http or https URL.
std::string origin_of(const std::string& url);

// The host of a URL in lower case, as libcurl will connect to it ("[::1]" without its brackets).
// Error(kBadFile) when it is no http or https URL, or carries a user name or password.
std::string host_of(const std::string& url);

// Percent-encodes all but letters, digits, "-._~"; slashes stay when `keep_slashes`.
std::string url_escape(std::string_view text, bool keep_slashes);

}  // namespace quaver::hub
