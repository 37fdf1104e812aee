#include "hub/client.h"

#include <charconv>

#include "checkpoint/printable.h"
#include "hub/hasher.h"
#include "hub/retries.h"
#include "hub/status.h"

namespace quaver::hub {
namespace {

constexpr int kMaxRedirects = 8;
constexpr size_t kMaxListingBytes = size_t{64} << 20;
constexpr size_t kMaxErrorPageBytes = size_t{1} << 20;

// "\"abc\"" and "W/\"abc\"" -> "abc".
std::string_view bare_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return etag;
}

std::string_view first_of(std::string_view a, std::string_view b) { return a.empty() ? b : a; }

// Runs `attempt` until it gives a reply or the patience ends.
template <class Attempt>
HttpReply with_retries(const std::string& what, Attempt attempt) {
  Retries retries(what);
  for (;;) try {
      return attempt();
    } catch (const TransientError& error) {
      retries.wait_after(error);
    }
}

}  // namespace

Client::Client(Settings settings, RepoName repo)
    : settings_(std::move(settings)),
      repo_(std::move(repo)),
      origin_(origin_of(settings_.endpoint)),
      connection_(settings_.stall_seconds) {}

std::string Client::file_url(std::string_view commit, const std::string& path) const {
  return cat(settings_.endpoint, "/", repo_.id, "/resolve/", commit, "/", url_escape(path, true));
}

HttpReply Client::fetch(HttpRequest request, const std::string& file, const HttpConnection::BodySink& body) {
  for (int hops = 0; hops <= kMaxRedirects; ++hops) {
    std::string origin = origin_of(request.url);
    require(origin.starts_with("https:") || origin_.starts_with("http:"), ErrorKind::kUnavailable, repo_.id,
            ": ", settings_.endpoint, " redirects to ", origin, ", which is not encrypted");
    request.token = origin == origin_ ? settings_.token : "";
    size_t ignored = 0;
    HttpReply reply =
        connection_.send(request, [&](const HttpReply& so_far, std::span<const std::byte> bytes) {
          if (so_far.status == 200 || so_far.status == 206) return body(so_far, bytes);
          require((ignored += bytes.size()) <= kMaxErrorPageBytes, ErrorKind::kUnavailable, origin,
                  ": answers ", so_far.status, " with a page that does not end");
        });
    if (reply.redirect.empty() || (request.head && !reply.header("x-linked-etag").empty())) return reply;
    request.url = reply.redirect;
  }
  fail(ErrorKind::kUnavailable, repo_.id, file.empty() ? "" : cat(", file ", printable(file)), ": ",
       settings_.endpoint, " redirects more than ", kMaxRedirects, " times");
}

Listing Client::list_files() {
  std::string what = cat(repo_.id, ": list of files from ", settings_.endpoint), text;
  with_retries(repo_.id, [&] {
    text.clear();
    HttpRequest request{.url = cat(settings_.endpoint, "/api/models/", repo_.id, "/revision/",
                                   url_escape(repo_.revision, false), "?blobs=true")};
    HttpReply reply = fetch(request, "", [&](const HttpReply&, std::span<const std::byte> bytes) {
      require(text.size() + bytes.size() <= kMaxListingBytes, ErrorKind::kBadFile, what, ": is longer than ",
              kMaxListingBytes, " bytes");
      text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    });
    check_status(reply, {repo_, "", settings_.endpoint, !settings_.token.empty()});
    return reply;
  });
  return parse_listing(parse_json(text, what, {.max_bytes = kMaxListingBytes}), what);
}

void Client::describe(const std::string& commit, RepoFile& file) {
  std::string what = cat(repo_.id, ", file ", printable(file.path));
  HttpReply reply = with_retries(what, [&] {
    HttpReply head = fetch({.url = file_url(commit, file.path), .head = true}, file.path, {});
    if (head.redirect.empty())
      check_status(head, {repo_, file.path, settings_.endpoint, !settings_.token.empty()});
    return head;
  });
  file.checksum = bare_etag(first_of(reply.header("x-linked-etag"), reply.header("etag")));
  require(is_checksum(file.checksum), ErrorKind::kBadFile, what, ": ETag ", printable(file.checksum),
          " is no SHA-256 and no git checksum, so that the file could not be verified");
  std::string_view size = first_of(reply.header("x-linked-size"), reply.header("content-length"));
  uint64_t bytes = 0;
  auto [end, status] = std::from_chars(size.data(), size.data() + size.size(), bytes);
  require(status == std::errc() && end == size.data() + size.size() && bytes < uint64_t{1} << 50,
          ErrorKind::kBadFile, what, ": size ", printable(size), " is not a whole number in range");
  file.size_bytes = bytes;
}

HttpReply Client::get(std::string_view commit, const std::string& path, uint64_t first_byte,
                      const HttpConnection::BodySink& body) {
  HttpReply reply = fetch({.url = file_url(commit, path), .first_byte = first_byte}, path, body);
  check_status(reply, {repo_, path, settings_.endpoint, !settings_.token.empty()});
  return reply;
}

}  // namespace quaver::hub
