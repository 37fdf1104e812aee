// A hash map from 64-bit keys to small values, for tables that are built once and read in every inner loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace quaver::text {

// Open addressing with linear probing, at most half full. The key ~0 is reserved. Not thread safe while it is
// being filled; find is safe from many threads afterwards. std::unordered_map's nodes cost two cache misses
// more per look-up, and merging does several look-ups per character.
template <class Value>
class FlatMap {
 public:
  void reserve(size_t count) {
    size_t capacity = 16;
    while (capacity < 2 * count) capacity *= 2;
    if (capacity > slots_.size()) rehash(capacity);
  }

  void insert_or_assign(uint64_t key, const Value& value) {
    if (2 * (size_ + 1) > slots_.size()) rehash(slots_.empty() ? 16 : 2 * slots_.size());
    Slot& slot = slots_[locate(key)];
    size_ += slot.key != key;
    slot = {key, value};
  }

  const Value* find(uint64_t key) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[locate(key)];
    return slot.key == key ? &slot.value : nullptr;
  }

  size_t size() const { return size_; }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct Slot {
    uint64_t key = kEmpty;
    Value value{};
  };

  size_t locate(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    // Fibonacci hashing; the high half is folded in since keys often differ there alone.
    size_t i = ((key ^ (key >> 32)) * 0x9E3779B97F4A7C15ull) >> 20 & mask;
    while (slots_[i].key != key && slots_[i].key != kEmpty) i = (i + 1) & mask;
    return i;
  }

  void rehash(size_t capacity) {
    std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(capacity));
    for (const Slot& slot : old)
      if (slot.key != kEmpty) slots_[locate(slot.key)] = slot;
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
};

}  // namespace quaver::text
