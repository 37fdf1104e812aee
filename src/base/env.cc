#include "base/env.h"

#include <charconv>
#include <cstdlib>

#include "base/error.h"

namespace quaver {

std::optional<std::string> env_string(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::optional<int64_t> env_int(const char* name) {
  auto text = env_string(name);
  if (!text) return std::nullopt;
  int64_t value = 0;
  auto [end, status] = std::from_chars(text->data(), text->data() + text->size(), value);
  require(status == std::errc() && end == text->data() + text->size(), ErrorKind::kInvalidInput,
          "environment variable ", name, " must be a whole number, got '", *text, "'");
  return value;
}

}  // namespace quaver
