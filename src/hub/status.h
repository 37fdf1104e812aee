// What an HTTP status of the hub means, in one sentence a user can act on.
#pragma once

#include <string>

#include "hub/http.h"
#include "hub/repo_id.h"

namespace quaver::hub {

// What was asked of the hub, for messages.
struct Asked {
  const RepoName& repo;
  std::string file;  // empty: the list of files
  std::string endpoint;
  bool with_token = false;
};

// 200 and 206 pass. 408, 429 and 5xx are TransientError with what Retry-After says; 401 and 403 are
// Error(kNotFound) that name HF_TOKEN, 404 names repository, revision and file, anything else is
// Error(kUnavailable).
void check_status(const HttpReply& reply, const Asked& asked);

}  // namespace quaver::hub
