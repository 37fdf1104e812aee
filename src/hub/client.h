// Talks to the hub: which files a revision has, what they are, and their bytes.
#pragma once

#include <string>
#include <string_view>

#include "hub/http.h"
#include "hub/listing.h"
#include "hub/repo_id.h"
#include "hub/settings.h"

namespace quaver::hub {

// For one thread at a time. Failures that may pass are tried again (Retries); errors are those of
// check_status and parse_listing. The token goes to the endpoint's own scheme, host and port only, never
// along a redirect to another.
class Client {
 public:
  Client(Settings settings, RepoName repo);

  const RepoName& repo() const { return repo_; }
  Listing list_files();

  // Asks for size and checksum of a file whose listing lacks them (a mirror of the hub, say).
  // Error(kBadFile) when the answer lacks them too.
  void describe(const std::string& commit, RepoFile& file);

  // One attempt: streams the file from `first_byte` on into `body`, which sees replies of status 200 and 206
  // alone. TransientError is left to the caller, who knows what has come already.
  HttpReply get(std::string_view commit, const std::string& path, uint64_t first_byte,
                const HttpConnection::BodySink& body);

 private:
  HttpReply fetch(HttpRequest request, const std::string& file, const HttpConnection::BodySink& body);
  std::string file_url(std::string_view commit, const std::string& path) const;

  Settings settings_;
  RepoName repo_;
  std::string origin_;
  HttpConnection connection_;
};

}  // namespace quaver::hub
