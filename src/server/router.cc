#include "server/router.h"

#include <optional>

#include "base/cat.h"

namespace quaver::server {
namespace {

std::optional<std::vector<std::string>> match_path(std::string_view pattern, std::string_view path) {
  std::vector<std::string> captures;
  while (true) {
    size_t brace = pattern.find('{');
    std::string_view fixed = pattern.substr(0, brace);
    if (!path.starts_with(fixed)) return std::nullopt;
    path.remove_prefix(fixed.size());
    if (brace == std::string_view::npos) break;
    pattern.remove_prefix(fixed.size());
    bool rest = pattern.starts_with("{...}");
    pattern.remove_prefix(rest ? 5 : 2);
    std::string_view taken = rest ? path : path.substr(0, path.find('/'));
    if (taken.empty()) return std::nullopt;
    captures.emplace_back(taken);
    path.remove_prefix(taken.size());
  }
  return path.empty() ? std::optional(std::move(captures)) : std::nullopt;
}

}  // namespace

Match find_route(std::span<const Route> routes, std::string_view method, std::string_view path) {
  std::string_view wanted = method == "HEAD" ? "GET" : method;
  Match out;
  for (size_t i = 0; i < routes.size(); ++i) {
    const Route& route = routes[i];
    auto captures = match_path(route.path, path);
    if (!captures) continue;
    const auto same = [&](const Route& other) {
      return other.method == route.method && other.path == route.path;
    };
    if (i > 0 && same(routes[i - 1])) continue;
    if (out.rows.empty() && route.method == wanted) {
      size_t end = i + 1;
      while (end < routes.size() && same(routes[end])) ++end;
      out.rows = routes.subspan(i, end - i);
      out.captures = std::move(*captures);
    }
    out.allowed += cat(out.allowed.empty() ? "" : ", ", route.method, route.method == "GET" ? ", HEAD" : "");
  }
  return out;
}

}  // namespace quaver::server
