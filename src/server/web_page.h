// The files of the web page, as they lie in the binary: src/server/web/.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace quaver::server {

struct WebFile {
  std::string_view path;  // that a browser asks for: "/" or "/web/NAME"
  std::string_view type;  // of its content, as HTTP has it
  const char* begin;
  const char* end;

  std::string_view content() const { return {begin, end}; }
};

// Every file there is.
std::span<const WebFile> web_files();

// The entity tag, quotes included: equal for equal content (FNV-1a, 64 bits; no secret depends on it).
std::string entity_tag(std::string_view content);

}  // namespace quaver::server
