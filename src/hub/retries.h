// How often and how long after a failure to ask a server again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hub/http.h"

namespace quaver::hub {

// Seconds to wait after the n-th failure in a row, n from 1: 0.5, 1, 2, 4, 8, 8 ...; or what the server asked
// for, when that is more.
double delay_seconds(int failures, int64_t asked_seconds);

// "120", or a date as HTTP writes it ("Wed, 21 Oct 2015 07:28:00 GMT"); `now` in seconds since 1970. -1 when
// it is neither; a date in the past is 0.
int64_t parse_retry_after(std::string_view text, int64_t now);

// Counts failures in a row; says in the log what is waited for.
class Retries {
 public:
  explicit Retries(std::string what) : what_(std::move(what)) {}

  // Sleeps; after five failures in a row, or when the server asks for more than ten minutes, throws
  // Error(kUnavailable) that tells the reason instead.
  void wait_after(const TransientError& error);
  // Bytes came: the failures before do not count any more.
  void progressed() { failures_ = 0; }

 private:
  std::string what_;
  int failures_ = 0;
};

}  // namespace quaver::hub
