#include "hub/http.h"

#include <curl/curl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <exception>

#include "base/env.h"
#include "checkpoint/printable.h"

namespace quaver::hub {
namespace {

constexpr size_t kMaxHeaders = 256;
constexpr long kConnectSeconds = 10;

struct GlobalCurl {
  GlobalCurl() { curl_global_init(CURL_GLOBAL_DEFAULT); }
  ~GlobalCurl() { curl_global_cleanup(); }
};

std::string trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return std::string(text);
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// What the callbacks of one transfer see. An exception can't cross libcurl, so it is kept for later.
struct Transfer {
  CURL* curl;
  HttpReply reply;
  const HttpConnection::BodySink& body;
  bool (*may_connect)(const sockaddr&);
  std::exception_ptr error;
  bool refused = false;  // an address was
};

size_t on_header(char* data, size_t, size_t length, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  std::string_view line(data, length);
  if (line.starts_with("HTTP/")) transfer.reply.headers.clear();  // after 100 Continue or a proxy's answer
  size_t colon = line.find(':');
  if (colon == line.npos || transfer.reply.headers.size() >= kMaxHeaders) return length;
  transfer.reply.headers[lower(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
  return length;
}

size_t on_body(char* data, size_t, size_t length, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  try {
    long status = 0;
    curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
    transfer.reply.status = static_cast<int>(status);
    if (transfer.body) transfer.body(transfer.reply, std::as_bytes(std::span(data, length)));
    return length;
  } catch (...) {
    transfer.error = std::current_exception();
    return 0;
  }
}

curl_socket_t on_socket(void* user, curlsocktype, curl_sockaddr* address) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (!transfer.may_connect(address->addr)) {
    transfer.refused = true;
    return CURL_SOCKET_BAD;
  }
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

// Another try would fail in the same way: certificates, and what this build of libcurl can't do.
bool is_lasting(CURLcode result) {
  return result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CACERT_BADFILE ||
         result == CURLE_UNSUPPORTED_PROTOCOL || result == CURLE_URL_MALFORMAT;
}

struct HeaderList {
  curl_slist* list = nullptr;
  void add(const std::string& line) { list = curl_slist_append(list, line.c_str()); }
  ~HeaderList() { curl_slist_free_all(list); }
};

}  // namespace

struct HttpConnection::Handle {
  CURL* curl = curl_easy_init();
  int stall_seconds = 0;
  char reason[CURL_ERROR_SIZE] = "";
  ~Handle() { curl_easy_cleanup(curl); }

  void prepare(const HttpRequest& request, HeaderList& headers, Transfer& transfer) {
    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "quaver");
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(stall_seconds));
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
    if (request.max_seconds > 0)
      curl_easy_setopt(curl, CURLOPT_TIMEOUT, static_cast<long>(request.max_seconds));
    if (request.may_connect) {
      curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, on_socket);
      curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, &transfer);
      curl_easy_setopt(curl, CURLOPT_PROXY, "");
    }
    if (request.head) curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    if (request.first_byte > 0) headers.add(cat("Range: bytes=", request.first_byte, "-"));
    if (!request.token.empty()) headers.add(cat("Authorization: Bearer ", request.token));
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.list);
    if (auto certificates = env_string("SSL_CERT_FILE"))
      curl_easy_setopt(curl, CURLOPT_CAINFO, certificates->c_str());
  }
};

std::string_view HttpReply::header(std::string_view name) const {
  auto it = headers.find(name);
  return it == headers.end() ? std::string_view() : std::string_view(it->second);
}

HttpConnection::HttpConnection(int stall_seconds) {
  static GlobalCurl global;
  handle_ = std::make_unique<Handle>();
  require(handle_->curl != nullptr, ErrorKind::kInternal, "libcurl can't be initialised");
  handle_->stall_seconds = stall_seconds;
}

HttpConnection::~HttpConnection() = default;

HttpReply HttpConnection::send(const HttpRequest& request, const BodySink& body) {
  HeaderList headers;
  Transfer transfer{
      .curl = handle_->curl, .reply = {}, .body = body, .may_connect = request.may_connect, .error = nullptr};
  handle_->reason[0] = '\0';
  handle_->prepare(request, headers, transfer);
  CURLcode result = curl_easy_perform(handle_->curl);
  if (transfer.error) std::rethrow_exception(transfer.error);
  if (result != CURLE_OK) {
    std::string_view reason = handle_->reason[0] ? handle_->reason : curl_easy_strerror(result);
    std::string message = cat(origin_of(request.url), ": ", reason);
    if (transfer.refused)
      throw AddressRefused(cat(origin_of(request.url), ": its address may not be reached"));
    require(!is_lasting(result), ErrorKind::kUnavailable, message);
    throw TransientError(message);
  }
  long status = 0;
  curl_easy_getinfo(handle_->curl, CURLINFO_RESPONSE_CODE, &status);
  transfer.reply.status = static_cast<int>(status);
  char* redirect = nullptr;
  curl_easy_getinfo(handle_->curl, CURLINFO_REDIRECT_URL, &redirect);
  if (redirect != nullptr) transfer.reply.redirect = redirect;
  return std::move(transfer.reply);
}

namespace {

// Parts of an http or https URL, in lower case; "" for those that are not there.
class UrlParts {
 public:
  explicit UrlParts(const std::string& url) : url_(curl_url(), curl_url_cleanup) {
    const bool readable = curl_url_set(url_.get(), CURLUPART_URL, url.c_str(), 0) == CURLUE_OK;
    const std::string scheme = readable ? part(CURLUPART_SCHEME) : "";
    require((scheme == "http" || scheme == "https") && !part(CURLUPART_HOST).empty(), ErrorKind::kBadFile,
            printable(url), ": is not an http or https address");
  }
  std::string part(CURLUPart which, unsigned flags = 0) const {
    char* text = nullptr;
    if (curl_url_get(url_.get(), which, &text, flags) != CURLUE_OK) return "";
    std::string out = lower(text);
    curl_free(text);
    return out;
  }

 private:
  std::unique_ptr<CURLU, void (*)(CURLU*)> url_;
};

}  // namespace

std::string origin_of(const std::string& url) {
  const UrlParts parts(url);
  return cat(parts.part(CURLUPART_SCHEME), "://", parts.part(CURLUPART_HOST), ":",
             parts.part(CURLUPART_PORT, CURLU_DEFAULT_PORT));
}

std::string host_of(const std::string& url) {
  const UrlParts parts(url);
  require(parts.part(CURLUPART_USER).empty() && parts.part(CURLUPART_PASSWORD).empty(), ErrorKind::kBadFile,
          origin_of(url), ": the address carries a user name or password");
  std::string host = parts.part(CURLUPART_HOST);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

std::string url_escape(std::string_view text, bool keep_slashes) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    bool plain =
        byte < 0x80 && (std::isalnum(byte) || std::string_view("-._~").find(c) != std::string_view::npos);
    if (plain || (keep_slashes && c == '/'))
      out.push_back(c);
    else
      out.append({'%', kHex[byte >> 4], kHex[byte & 15]});
  }
  return out;
}

}  // namespace quaver::hub
