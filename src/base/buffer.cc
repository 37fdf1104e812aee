// Where a Buffer's own bytes come from.
#include "base/buffer.h"

#include <sys/mman.h>

#include <new>

namespace quaver {
namespace {

// From this size on, pages of its own. Loading takes and frees a layer's bytes over and over between
// allocations that stay: from malloc's heap, a model of many experts kept as much again as it weighs.
constexpr size_t kOwnPages = size_t{256} << 10;

std::shared_ptr<std::byte> from_the_system(size_t size_bytes) {
  void* pages = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  return {static_cast<std::byte*>(pages), [size_bytes](std::byte* p) { ::munmap(p, size_bytes); }};
}

std::shared_ptr<std::byte> from_the_heap(size_t size_bytes) {
  return {static_cast<std::byte*>(::operator new (size_bytes + 1, std::align_val_t{64})),
          [](std::byte* p) { ::operator delete (p, std::align_val_t{64}); }};
}

}  // namespace

Buffer Buffer::allocate(size_t size_bytes, std::byte*& writable) {
  std::shared_ptr<std::byte> memory =
      size_bytes >= kOwnPages ? from_the_system(size_bytes) : from_the_heap(size_bytes);
  writable = memory.get();
  return Buffer({memory.get(), size_bytes}, memory);
}

}  // namespace quaver
