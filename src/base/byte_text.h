// Sizes as people read them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace quaver {

// "12.3 MB", of 10^6 bytes.
inline std::string megabytes(int64_t bytes) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

}  // namespace quaver
