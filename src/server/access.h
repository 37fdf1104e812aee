// Who may call: API keys, and the headers that let browsers of other origins in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http_types.h"

namespace quaver::server {

// True when no key is set, or the request carries one: `Authorization: Bearer KEY`, the scheme in any case.
// The time taken does not depend on where a wrong key differs.
bool is_authorized(const HttpRequest& request, const std::vector<std::string>& keys);

// CORS headers for an answer to this request; none when its origin is absent or not allowed.
Headers cors_headers(const HttpRequest& request, const std::vector<std::string>& allowed_origins);
// A browser's question before the real request. It carries no key and runs nothing.
bool is_preflight(const HttpRequest& request, const std::vector<std::string>& allowed_origins);

}  // namespace quaver::server
