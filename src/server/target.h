// The request target of HTTP: its path, decoded, and its query.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quaver::server {

struct Target {
  std::string path, query;
};

// "/a%20b?x=1", "http://host/a" (the scheme and host are dropped) or "*". Nothing when it is none of these,
// when a percent sign is not followed by two hex digits, or when a control character comes out.
std::optional<Target> parse_target(std::string_view target);

}  // namespace quaver::server
