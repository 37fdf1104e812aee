// How many threads ATen may use for what one thread starts.
#pragma once

#include <ATen/Parallel.h>

namespace quaver::quantize {

// For operations that this thread starts, while it lives. One thread for each piece of work beats operations
// that are split: OpenMP threads that wait for each other spin, which a busy machine pays for dearly.
class AtenThreads {
 public:
  explicit AtenThreads(int threads) : before_(at::get_num_threads()) { at::set_num_threads(threads); }
  ~AtenThreads() { at::set_num_threads(before_); }
  AtenThreads(const AtenThreads&) = delete;
  AtenThreads& operator=(const AtenThreads&) = delete;

 private:
  int before_;
};

}  // namespace quaver::quantize
