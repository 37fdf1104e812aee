// Counts what the program allocates with new, so that tests can hold a reader to memory in proportion to its
// input.
#pragma once

#include <cstddef>

namespace quaver::testing {

// The most that was allocated at once since the last reset, beyond what was allocated then, over all threads.
// Zero in builds with the address sanitizer, which there refuses single allocations past a limit instead.
size_t peak_allocated_bytes();
void reset_peak_allocated_bytes();

// False where the sanitizer owns the allocator.
bool allocations_are_counted();

}  // namespace quaver::testing
