#include "server/target.h"

#include <charconv>

namespace quaver::server {
namespace {

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char c = static_cast<unsigned char>(text[i]);
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      auto [end, error] = std::from_chars(text.data() + i + 1, text.data() + i + 3, c, 16);
      if (error != std::errc() || end != text.data() + i + 3) return std::nullopt;
      i += 2;
    }
    if (c < 0x20 || c == 0x7f) return std::nullopt;
    out.push_back(static_cast<char>(c));
  }
  return out;
}

}  // namespace

std::optional<Target> parse_target(std::string_view target) {
  if (target == "*") return Target{"*", ""};
  if (size_t scheme = target.find("://"); scheme != std::string_view::npos && !target.starts_with('/')) {
    size_t slash = target.find('/', scheme + 3);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  if (!target.starts_with('/')) return std::nullopt;
  target = target.substr(0, target.find('#'));
  size_t mark = target.find('?');
  std::optional<std::string> path = percent_decode(target.substr(0, mark));
  if (!path) return std::nullopt;
  return Target{*path, mark == std::string_view::npos ? "" : std::string(target.substr(mark + 1))};
}

}  // namespace quaver::server
