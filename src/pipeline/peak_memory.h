// The most memory that a model's work has taken, as replies report it.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace quaver::pipeline {

// Bytes since the process began. On an accelerator those of its allocator; on the host both are the process's
// largest resident set.
struct PeakMemory {
  int64_t allocated = 0, reserved = 0;
};
PeakMemory peak_memory(c10::Device device);

}  // namespace quaver::pipeline
