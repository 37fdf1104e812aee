// Hands out the blocks of the paged KV cache and finds prefixes that are already in it.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "llm/sequence.h"

namespace quaver::llm {

struct BlockManagerOptions {
  int32_t num_blocks = 0;
  int32_t block_size = 16;  // tokens
  bool prefix_caching = true;
  uint64_t hash_mask = ~uint64_t{0};  // tests narrow it to force collisions
};

// Blocks are counted by reference: several sequences may read one full block, only its sole owner appends to
// one that is not full. A full block whose content is registered stays findable after its last reader left,
// until the space is needed; the one unused for longest goes first, and tails go before their heads.
//
// A prefix is found by a hash chained over (salt, tokens so far), and each hit is then verified against the
// block's own tokens and predecessor, so a collision can cost a hit and never gives wrong text.
//
// Not thread safe. Violated preconditions are Error(kInternal).
class BlockManager {
 public:
  explicit BlockManager(const BlockManagerOptions& options);

  int32_t num_blocks() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t block_size() const { return options_.block_size; }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }  // cached but unused ones included
  int32_t num_used() const { return num_blocks() - num_free(); }
  int32_t num_cached() const { return static_cast<int32_t>(by_hash_.size()); }
  int32_t blocks_for(int32_t tokens) const {
    return tokens / options_.block_size + (tokens % options_.block_size != 0);
  }

  // Takes every block that the sequence's tokens need, sharing those of the longest cached prefix (at least
  // one token is always left to compute), and sets num_computed to that prefix. False, and nothing changed,
  // when that would leave fewer than `reserve` blocks. Precondition: the sequence holds no blocks.
  bool allocate(Sequence& sequence, int32_t reserve);

  // Takes blocks until `tokens` tokens are covered. False, and nothing changed, when there are too few.
  bool extend(Sequence& sequence, int32_t tokens);

  // Makes the full blocks among the first num_computed tokens findable. Call after they were computed.
  void register_computed(Sequence& sequence);

  // Gives all blocks back and sets num_computed to 0; what was registered stays findable.
  void release(Sequence& sequence);

  // As release, and nobody will find these blocks again: their content can't be trusted.
  void discard(Sequence& sequence);

  // Forgets every registered prefix. Blocks in use stay with their sequences.
  void clear_cache();

  // Throws Error(kInternal) unless counts, lists and maps agree with `live`, all sequences that hold blocks.
  void check(std::span<const Sequence* const> live) const;

 private:
  struct Block {
    int32_t references = 0;
    std::list<BlockId>::iterator position;  // in free_ when references == 0, else in used_
    PrefixLink link;                        // content 0 = not registered
    ContentId predecessor = 0;
    std::vector<int32_t> tokens;  // of registered content
    std::string salt;             // of registered content without predecessor
  };

  Block& at(BlockId id) { return blocks_[static_cast<size_t>(id)]; }
  const Block& at(BlockId id) const { return blocks_[static_cast<size_t>(id)]; }
  std::span<const int32_t> block_tokens(const Sequence& sequence, size_t index) const;
  uint64_t next_hash(const Sequence& sequence, size_t index, const PrefixLink& previous) const;
  bool holds(const Block& block, const Sequence& sequence, size_t index, const PrefixLink& previous) const;
  std::vector<BlockId> find_prefix(const Sequence& sequence) const;
  void register_next(Sequence& sequence);
  void take(BlockId id);
  void take_oldest(Sequence& sequence, int32_t count);
  void drop(BlockId id);
  void forget(Block& block);

  BlockManagerOptions options_;
  uint64_t hash_key_;
  std::vector<Block> blocks_;
  std::list<BlockId> free_, used_;  // front of free_ = next to be reused
  std::unordered_map<uint64_t, BlockId> by_hash_;
  ContentId last_content_ = 0;
};

}  // namespace quaver::llm
