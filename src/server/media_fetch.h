// Pictures that a request names by URL: what the operator allows to be fetched, and fetching it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace quaver::server {

struct MediaPolicy {
  // Hosts that may be asked, whatever their addresses are. Empty: any host with a public address.
  std::vector<std::string> domains;
  std::string local_path;  // file: URLs below this folder are read; empty: none are
};

struct MediaLimits {
  size_t bytes = size_t{64} << 20;
  int seconds = 10;  // for all hops together, to the next whole one
  int redirects = 3;
};

// Of http, https and file URLs. Every hop of a redirect is held to the policy, at the address that is
// connected to, so that names that change their minds gain nothing. Throws Error(kInvalidInput): it names the
// policy and never says what an address that is not allowed would have answered. Blocks for as long as
// `seconds`.
std::vector<std::byte> fetch_media(const std::string& url, const MediaPolicy& policy,
                                   const MediaLimits& limits = {});

}  // namespace quaver::server
