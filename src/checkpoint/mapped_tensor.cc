#include "checkpoint/mapped_tensor.h"

#include <sys/mman.h>
#include <unistd.h>

namespace quaver {

void release_pages(std::span<const std::byte> mapped) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(mapped.data());
  const uintptr_t begin = (first + page - 1) / page * page, end = (first + mapped.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace quaver
