// The logging sink: levelled lines on standard error, behind which spdlog stays hidden.
#pragma once

#include <string_view>

#include "base/cat.h"

namespace quaver {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// Thread safe. The starting level is `QUAVER_LOG_LEVEL` (debug, info, warning, error, off), else info.
void set_log_level(LogLevel level);
void log_line(LogLevel level, std::string_view line);

template <class... Args>
void log_debug(const Args&... args) {
  log_line(LogLevel::kDebug, cat(args...));
}
template <class... Args>
void log_info(const Args&... args) {
  log_line(LogLevel::kInfo, cat(args...));
}
template <class... Args>
void log_warning(const Args&... args) {
  log_line(LogLevel::kWarning, cat(args...));
}
template <class... Args>
void log_error(const Args&... args) {
  log_line(LogLevel::kError, cat(args...));
}

}  // namespace quaver
