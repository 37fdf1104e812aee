#include "hub/retries.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <thread>

#include "base/log.h"

namespace quaver::hub {
namespace {

constexpr int kMaxFailures = 5;
constexpr int64_t kMaxAskedSeconds = 600;

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", seconds);
  return text;
}

}  // namespace

double delay_seconds(int failures, int64_t asked_seconds) {
  double delay = 0.5 * static_cast<double>(1 << std::min(failures - 1, 4));
  return std::max(delay, static_cast<double>(asked_seconds));
}

int64_t parse_retry_after(std::string_view text, int64_t now) {
  int64_t seconds = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (status == std::errc() && end == text.data() + text.size()) return seconds < 0 ? -1 : seconds;
  time_t when = curl_getdate(std::string(text).c_str(), nullptr);
  return when < 0 ? -1 : std::max<int64_t>(0, when - now);
}

void Retries::wait_after(const TransientError& error) {
  ++failures_;
  require(error.wait_seconds <= kMaxAskedSeconds, ErrorKind::kUnavailable, what_, ": ", error.what(),
          "; the server asks to come again in ", error.wait_seconds, " seconds");
  require(failures_ < kMaxFailures, ErrorKind::kUnavailable, what_, ": ", error.what(), " (", failures_,
          " attempts in a row; the same command continues where this one stopped)");
  double delay = delay_seconds(failures_, error.wait_seconds);
  log_warning(what_, ": ", error.what(), "; trying again in ", seconds_text(delay), " s");
  std::this_thread::sleep_for(std::chrono::duration<double>(delay));
}

}  // namespace quaver::hub
