#include "server/media_fetch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <span>

#include "base/cat.h"
#include "base/error.h"
#include "checkpoint/printable.h"
#include "hub/address.h"
#include "hub/http.h"

namespace quaver::server {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void media_refused(std::string message) {
  throw Error(ErrorKind::kInvalidInput, std::move(message));
}

bool any_address(const sockaddr&) { return true; }

void check_host(const std::string& host, const MediaPolicy& policy) {
  if (policy.domains.empty() || std::ranges::find(policy.domains, host) != policy.domains.end()) return;
  media_refused(cat("the host '", printable(host),
                    "' is not among those that this server fetches from "
                    "(--allowed-media-domains)"));
}

// One hop: the body, or where it points.
struct Fetched {
  std::vector<std::byte> bytes;
  std::string redirect;
};

Fetched fetch_hop(const std::string& url, const MediaPolicy& policy, const MediaLimits& limits, int seconds) {
  const std::string host = hub::host_of(url);
  check_host(host, policy);
  Fetched out;
  const auto take = [&](const hub::HttpReply& reply, std::span<const std::byte> piece) {
    if (reply.status != 200) return;
    if (out.bytes.size() + piece.size() > limits.bytes)
      media_refused(cat(printable(host), " sends more than ", limits.bytes, " bytes"));
    out.bytes.insert(out.bytes.end(), piece.begin(), piece.end());
  };
  hub::HttpConnection connection(seconds);
  const hub::HttpReply reply =
      connection.send({.url = url,
                       .max_seconds = seconds,
                       .may_connect = policy.domains.empty() ? hub::is_public_address : any_address},
                      take);
  out.redirect = reply.redirect;
  if (out.redirect.empty() && reply.status != 200)
    media_refused(cat(printable(host), " answered with status ", reply.status));
  return out;
}

std::vector<std::byte> fetch_remote(std::string url, const MediaPolicy& policy, const MediaLimits& limits) {
  using std::chrono::seconds, std::chrono::steady_clock;
  const steady_clock::time_point end = steady_clock::now() + seconds(limits.seconds);
  for (int hop = 0; hop <= limits.redirects; ++hop) {
    const auto left = std::chrono::ceil<seconds>(end - steady_clock::now()).count();
    if (left < 1) media_refused(cat("it takes more than ", limits.seconds, " seconds"));
    Fetched fetched = fetch_hop(url, policy, limits, static_cast<int>(left));
    if (fetched.redirect.empty()) return std::move(fetched.bytes);
    url = std::move(fetched.redirect);
  }
  media_refused(cat("more than ", limits.redirects, " redirects"));
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string digits(text.substr(i + 1, text[i] == '%' ? 2 : 0));
    const bool escape =
        digits.size() == 2 && digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
    out += escape ? static_cast<char>(std::stoi(digits, nullptr, 16)) : text[i];
    if (escape) i += 2;
  }
  return out;
}

struct FileHandle {
  int number;
  ~FileHandle() {
    if (number >= 0) ::close(number);
  }
};

std::vector<std::byte> read_whole(const fs::path& path, const MediaLimits& limits) {
  const FileHandle file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW)};
  struct stat facts {};
  if (file.number < 0 || ::fstat(file.number, &facts) != 0 || !S_ISREG(facts.st_mode))
    media_refused("the file can't be read");
  const auto size = static_cast<size_t>(facts.st_size);
  if (size > limits.bytes)
    media_refused(cat("the file has ", size, " bytes, at most ", limits.bytes, " are taken"));
  std::vector<std::byte> bytes(size);
  size_t done = 0;
  for (ssize_t n; done < size && (n = ::read(file.number, bytes.data() + done, size - done)) > 0;)
    done += static_cast<size_t>(n);
  if (done != size) media_refused("the file can't be read");
  return bytes;
}

std::vector<std::byte> read_local(std::string_view url, const MediaPolicy& policy,
                                  const MediaLimits& limits) {
  if (policy.local_path.empty())
    media_refused("this server reads no file: URLs (--allowed-local-media-path)");
  url.remove_prefix(std::string_view("file://").size());
  if (url.starts_with("localhost/")) url.remove_prefix(std::string_view("localhost").size());
  std::error_code error;
  const fs::path folder = fs::canonical(policy.local_path, error),
                 file = fs::canonical(percent_decoded(url), error);
  const fs::path below = file.lexically_relative(folder);
  // One sentence for what is missing and for what is elsewhere: neither is a client's business.
  if (error || !url.starts_with('/') || below.empty() || *below.begin() == "..")
    media_refused("there is no such file below the folder that this server reads from");
  return read_whole(file, limits);
}

}  // namespace

std::vector<std::byte> fetch_media(const std::string& url, const MediaPolicy& policy,
                                   const MediaLimits& limits) {
  if (url.starts_with("file://")) return read_local(url, policy, limits);
  try {
    return fetch_remote(url, policy, limits);
  } catch (const hub::AddressRefused&) {
    media_refused(
        "this server fetches from public addresses alone, or from hosts that --allowed-media-domains names");
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::kInvalidInput) throw;
    media_refused(cat("it can't be fetched: ", e.what()));
  }
}

}  // namespace quaver::server
