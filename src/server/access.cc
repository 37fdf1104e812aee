#include "server/access.h"

#include <algorithm>

namespace quaver::server {
namespace {

// Looks at every character of `given` whatever it meets.
bool same_in_constant_time(std::string_view given, std::string_view key) {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    char other = key.empty() ? '\0' : key[i % key.size()];
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(other);
  }
  return difference == 0;
}

bool is_bearer(std::string_view scheme) {
  constexpr std::string_view word = "bearer ";
  return scheme.size() >= word.size() &&
         std::equal(word.begin(), word.end(), scheme.begin(), [](char w, char c) {
           return w == (c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c);
         });
}

}  // namespace

bool is_authorized(const HttpRequest& request, const std::vector<std::string>& keys) {
  if (keys.empty()) return true;
  const std::string* header = request.header("authorization");
  if (!header || !is_bearer(*header)) return false;
  std::string_view given = std::string_view(*header).substr(7);
  given.remove_prefix(std::min(given.find_first_not_of(' '), given.size()));
  bool found = false;
  for (const std::string& key : keys) found = same_in_constant_time(given, key) || found;
  return found && !given.empty();
}

Headers cors_headers(const HttpRequest& request, const std::vector<std::string>& allowed_origins) {
  const std::string* origin = request.header("origin");
  if (!origin || allowed_origins.empty()) return {};
  bool any = std::find(allowed_origins.begin(), allowed_origins.end(), "*") != allowed_origins.end();
  if (any) return {{"Access-Control-Allow-Origin", "*"}, {"Access-Control-Expose-Headers", "X-Request-Id"}};
  if (std::find(allowed_origins.begin(), allowed_origins.end(), *origin) == allowed_origins.end())
    return {{"Vary", "Origin"}};
  return {{"Access-Control-Allow-Origin", *origin},
          {"Access-Control-Expose-Headers", "X-Request-Id"},
          {"Vary", "Origin"}};
}

bool is_preflight(const HttpRequest& request, const std::vector<std::string>& allowed_origins) {
  return request.method == "OPTIONS" && !allowed_origins.empty() && request.header("origin") &&
         request.header("access-control-request-method");
}

}  // namespace quaver::server
