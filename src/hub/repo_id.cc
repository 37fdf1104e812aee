#include "hub/repo_id.h"

#include <algorithm>

namespace quaver::hub {
namespace {

constexpr size_t kMaxIdLength = 96;  // the hub's own limit
constexpr size_t kMaxRevisionLength = 200;

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_name_part(std::string_view part) {
  auto allowed = [](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; };
  auto edge = [](char c) { return c == '-' || c == '.'; };
  return !part.empty() && std::all_of(part.begin(), part.end(), allowed) && !edge(part.front()) &&
         !edge(part.back());
}

bool is_repo_id(std::string_view id) {
  if (id.size() > kMaxIdLength || id.find("--") != id.npos || id.find("..") != id.npos ||
      id.ends_with(".git"))
    return false;
  size_t slash = id.find('/');
  if (slash == id.npos) return is_name_part(id);
  return is_name_part(id.substr(0, slash)) && is_name_part(id.substr(slash + 1));
}

}  // namespace

bool is_revision(std::string_view text) {
  auto plain = [](char c) { return c > ' ' && c < 0x7f && c != ':' && c != '\\'; };
  return !text.empty() && text.size() <= kMaxRevisionLength && std::all_of(text.begin(), text.end(), plain) &&
         text.find("..") == text.npos && text.find("//") == text.npos && text.front() != '/' &&
         text.front() != '.' && text.back() != '/' && text.find("/.") == text.npos;
}

bool is_commit(std::string_view text) {
  auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == 40 && std::all_of(text.begin(), text.end(), hex);
}

std::optional<RepoName> parse_repo_name(std::string_view text) {
  RepoName name;
  if (size_t colon = text.find(':'); colon != text.npos) {
    name.file = text.substr(colon + 1);
    if (name.file.empty() || name.file.front() == '/') return std::nullopt;
    text = text.substr(0, colon);
  }
  if (size_t at = text.find('@'); at != text.npos) {
    name.revision = text.substr(at + 1);
    if (!is_revision(name.revision)) return std::nullopt;
    text = text.substr(0, at);
  }
  if (!is_repo_id(text)) return std::nullopt;
  name.id = text;
  return name;
}

}  // namespace quaver::hub
