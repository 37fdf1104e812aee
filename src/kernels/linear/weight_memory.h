// Memory for prepacked weights: close together and on huge pages.
#pragma once

#include "base/buffer.h"

namespace quaver::kernels {

// Zeroed and 64-byte aligned. Decoding reads every weight once per token, so TLB misses and the prefetcher's
// stop at each 4 KiB page count; small weights share chunks of huge pages. A chunk lives as long as any
// buffer in it. Thread safe.
Buffer allocate_weight(size_t size_bytes, std::byte*& writable);

}  // namespace quaver::kernels
