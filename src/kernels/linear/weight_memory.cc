#include "kernels/linear/weight_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <mutex>
#include <new>

namespace quaver::kernels {
namespace {

constexpr size_t kHugePage = size_t{2} << 20, kChunk = size_t{64} << 20;

// Straight from the system: among malloc's blocks, chunks of this alignment would leave holes.
struct Chunk {
  std::byte* begin = nullptr;
  size_t size = 0;

  // The last pages stay small: a huge page that is touched at its start alone is resident as a whole.
  explicit Chunk(size_t wanted) : size(wanted), mapped_size_(wanted + kHugePage) {
    mapped_ = ::mmap(nullptr, mapped_size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED) throw std::bad_alloc();
    uintptr_t address = (reinterpret_cast<uintptr_t>(mapped_) + kHugePage - 1) / kHugePage * kHugePage;
    begin = reinterpret_cast<std::byte*>(address);
    ::madvise(begin, size / kHugePage * kHugePage, MADV_HUGEPAGE);  // a wish: without, all works, slower
  }
  ~Chunk() { ::munmap(mapped_, mapped_size_); }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

 private:
  void* mapped_ = nullptr;
  size_t mapped_size_ = 0;
};

struct Arena {
  std::mutex mutex;
  std::weak_ptr<Chunk> chunk;  // weak: the last weight's end is the chunk's end
  size_t used = 0;
};

std::shared_ptr<Chunk> chunk_with_room(Arena& arena, size_t size) {
  std::shared_ptr<Chunk> chunk = arena.chunk.lock();
  if (chunk && arena.used + size <= chunk->size) return chunk;
  chunk = std::make_shared<Chunk>(kChunk);
  arena.chunk = chunk;
  arena.used = 0;
  return chunk;
}

}  // namespace

Buffer allocate_weight(size_t size_bytes, std::byte*& writable) {
  static Arena arena;
  size_t size = (size_bytes + 63) / 64 * 64;
  std::shared_ptr<Chunk> chunk;
  if (size > kChunk / 4) {
    chunk = std::make_shared<Chunk>(size);
    writable = chunk->begin;
  } else {
    std::lock_guard lock(arena.mutex);
    chunk = chunk_with_room(arena, size);
    writable = chunk->begin + arena.used;
    arena.used += size;
  }
  return Buffer({writable, size_bytes}, chunk);
}

}  // namespace quaver::kernels
