// How much memory a KV cache may take when nobody says.
#pragma once

#include <cstdint>

namespace quaver::pipeline {

// What this process may still allocate on the host: the least of what the system calls available and what is
// left of the control groups' limits (version 2 and 1). In bytes.
int64_t available_host_memory();

// For a cache of at most `wanted` bytes: that, or less where memory is short. On the CPU at most a quarter of
// `available` and 4 GiB, on an accelerator at most 85% of what is free after loading; the rest is for
// activations.
int64_t default_cache_bytes(int64_t wanted, int64_t available, bool on_host);

}  // namespace quaver::pipeline
