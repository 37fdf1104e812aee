#include "kernels/linear/weight_memory.h"

#include <sys/mman.h>

#include <mutex>

namespace quaver::kernels {
namespace {

constexpr size_t kHugePage = size_t{2} << 20, kChunk = size_t{16} << 20;

struct Chunk {
  std::byte* begin = nullptr;
  size_t size = 0;

  explicit Chunk(size_t wanted) : size((wanted + kHugePage - 1) / kHugePage * kHugePage) {
    begin = static_cast<std::byte*>(::operator new (size, std::align_val_t{kHugePage}));
    ::madvise(begin, size, MADV_HUGEPAGE);  // a wish: without huge pages everything works, slower
  }
  ~Chunk() { ::operator delete (begin, std::align_val_t{kHugePage}); }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;
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
  std::fill_n(writable, size, std::byte{0});
  return Buffer({writable, size_bytes}, chunk);
}

}  // namespace quaver::kernels
