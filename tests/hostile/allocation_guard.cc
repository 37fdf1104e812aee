#include "hostile/allocation_guard.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define QUAVER_SANITIZED_ALLOCATOR 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define QUAVER_SANITIZED_ALLOCATOR 1
#endif
#endif

namespace quaver::testing {
namespace {

std::atomic<size_t> live{0}, peak{0}, base{0};

}  // namespace

size_t peak_allocated_bytes() { return peak > base ? peak - base : 0; }
void reset_peak_allocated_bytes() {
  base = live.load();
  peak = live.load();
}

#ifdef QUAVER_SANITIZED_ALLOCATOR
bool allocations_are_counted() { return false; }
#else
bool allocations_are_counted() { return true; }

namespace {

void* count_up(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  size_t now = live += malloc_usable_size(memory);
  size_t seen = peak;
  while (now > seen && !peak.compare_exchange_weak(seen, now)) {
  }
  return memory;
}

void count_down(void* memory) {
  if (memory != nullptr) live -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace
#endif

}  // namespace quaver::testing

#ifdef QUAVER_SANITIZED_ALLOCATOR
extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=512"; }
#else
using quaver::testing::count_down;
using quaver::testing::count_up;

void* operator new(size_t size) { return count_up(std::malloc(size)); }
void* operator new[](size_t size) { return count_up(std::malloc(size)); }
void* operator new(size_t size, std::align_val_t alignment) {
  auto align = static_cast<size_t>(alignment);
  return count_up(std::aligned_alloc(align, (size + align - 1) / align * align));
}
void operator delete(void* memory) noexcept { count_down(memory); }
void operator delete[](void* memory) noexcept { count_down(memory); }
void operator delete(void* memory, size_t) noexcept { count_down(memory); }
void operator delete[](void* memory, size_t) noexcept { count_down(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { count_down(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { count_down(memory); }
#endif
