// Reference counts, the free list and the prefix map of the paged KV cache.
#include "llm/block_manager.h"

#include <algorithm>
#include <random>

#include "base/error.h"

namespace quaver::llm {
namespace {

// The finaliser of splitmix64: every input bit reaches every output bit.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

BlockManager::BlockManager(const BlockManagerOptions& options) : options_(options) {
  require(options.num_blocks > 0 && options.block_size > 0, ErrorKind::kInternal,
          "a KV cache needs at least one block of at least one token, got ", options.num_blocks, " of ",
          options.block_size);
  // Random, so that no client can craft prompts that share hash buckets.
  std::random_device random;
  hash_key_ = (uint64_t{random()} << 32) ^ random();
  blocks_.resize(static_cast<size_t>(options.num_blocks));
  for (BlockId id = 0; id < options.num_blocks; ++id) at(id).position = free_.insert(free_.end(), id);
}

std::span<const int32_t> BlockManager::block_tokens(const Sequence& sequence, size_t index) const {
  auto size = static_cast<size_t>(options_.block_size);
  return std::span(sequence.tokens).subspan(index * size, size);
}

uint64_t BlockManager::next_hash(const Sequence& sequence, size_t index, const PrefixLink& previous) const {
  uint64_t hash = mix(index == 0 ? hash_key_ : previous.hash);
  if (index == 0)
    for (char c : sequence.cache_salt) hash = mix(hash ^ static_cast<uint8_t>(c));
  for (int32_t token : block_tokens(sequence, index)) hash = mix(hash ^ static_cast<uint32_t>(token));
  return hash & options_.hash_mask;
}

bool BlockManager::holds(const Block& block, const Sequence& sequence, size_t index,
                         const PrefixLink& previous) const {
  return block.predecessor == (index == 0 ? 0 : previous.content) &&
         (index != 0 || block.salt == sequence.cache_salt) &&
         std::ranges::equal(block.tokens, block_tokens(sequence, index));
}

std::vector<BlockId> BlockManager::find_prefix(const Sequence& sequence) const {
  std::vector<BlockId> found;
  if (!options_.prefix_caching || !sequence.use_prefix_cache) return found;
  auto limit = static_cast<size_t>((sequence.length() - 1) / options_.block_size);
  PrefixLink link;
  while (found.size() < limit) {
    auto it = by_hash_.find(next_hash(sequence, found.size(), link));
    if (it == by_hash_.end() || !holds(at(it->second), sequence, found.size(), link)) break;
    link = at(it->second).link;
    found.push_back(it->second);
  }
  return found;
}

bool BlockManager::allocate(Sequence& sequence, int32_t reserve) {
  require(sequence.blocks.empty() && sequence.length() > 0, ErrorKind::kInternal,
          "allocate: the sequence has no tokens or holds blocks already");
  std::vector<BlockId> prefix = find_prefix(sequence);
  auto unused = std::ranges::count_if(prefix, [&](BlockId id) { return at(id).references == 0; });
  int32_t fresh = blocks_for(sequence.length()) - static_cast<int32_t>(prefix.size());
  if (fresh > num_free() - static_cast<int32_t>(unused) - reserve) return false;
  for (BlockId id : prefix) {
    take(id);
    sequence.links.push_back(at(id).link);
  }
  sequence.num_computed = static_cast<int32_t>(prefix.size()) * options_.block_size;
  sequence.blocks = std::move(prefix);
  take_oldest(sequence, fresh);
  return true;
}

bool BlockManager::extend(Sequence& sequence, int32_t tokens) {
  int32_t fresh = blocks_for(tokens) - static_cast<int32_t>(sequence.blocks.size());
  if (fresh > num_free()) return false;
  take_oldest(sequence, fresh);
  return true;
}

void BlockManager::take(BlockId id) {
  if (at(id).references++ == 0) used_.splice(used_.end(), free_, at(id).position);
}

void BlockManager::take_oldest(Sequence& sequence, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    BlockId id = free_.front();
    forget(at(id));
    take(id);
    sequence.blocks.push_back(id);
  }
}

void BlockManager::drop(BlockId id) {
  Block& block = at(id);
  require(block.references > 0, ErrorKind::kInternal, "KV block ", id, " was given back twice");
  if (--block.references > 0) return;
  // What nobody can find again is reused before anything that might be.
  free_.splice(block.link.content == 0 ? free_.begin() : free_.end(), used_, block.position);
}

void BlockManager::forget(Block& block) {
  if (block.link.content == 0) return;
  by_hash_.erase(block.link.hash);
  block.link = {};
  block.predecessor = 0;
  block.tokens.clear();
  block.salt.clear();
}

void BlockManager::register_computed(Sequence& sequence) {
  if (!options_.prefix_caching) return;
  auto full = static_cast<size_t>(sequence.num_computed / options_.block_size);
  while (sequence.links.size() < full) register_next(sequence);
}

void BlockManager::register_next(Sequence& sequence) {
  size_t index = sequence.links.size();
  PrefixLink previous = index == 0 ? PrefixLink{} : sequence.links.back();
  uint64_t hash = next_hash(sequence, index, previous);
  BlockId id = sequence.blocks[index];
  auto [it, inserted] = by_hash_.emplace(hash, id);
  if (!inserted && holds(at(it->second), sequence, index, previous)) {
    sequence.links.push_back(at(it->second).link);  // a neighbour computed the same text at the same time
    return;
  }
  sequence.links.push_back({hash, ++last_content_});
  if (!inserted) return;  // another content has this hash; ours stays unfindable
  Block& block = at(id);
  std::span<const int32_t> tokens = block_tokens(sequence, index);
  block.link = sequence.links.back();
  block.predecessor = previous.content;
  block.tokens.assign(tokens.begin(), tokens.end());
  if (index == 0) block.salt = sequence.cache_salt;
}

void BlockManager::release(Sequence& sequence) {
  // Tails first, so that a head is never reused before what can only be found through it.
  while (!sequence.blocks.empty()) {
    drop(sequence.blocks.back());
    sequence.blocks.pop_back();
  }
  sequence.links.clear();
  sequence.num_computed = 0;
}

void BlockManager::discard(Sequence& sequence) {
  for (BlockId id : sequence.blocks) forget(at(id));
  release(sequence);
}

void BlockManager::clear_cache() {
  for (Block& block : blocks_) forget(block);
}

void BlockManager::check(std::span<const Sequence* const> live) const {
  std::vector<int32_t> expected(blocks_.size(), 0);
  for (const Sequence* sequence : live)
    for (BlockId id : sequence->blocks) ++expected[static_cast<size_t>(id)];
  size_t registered = 0, unused = 0;
  for (BlockId id = 0; id < num_blocks(); ++id) {
    const Block& block = at(id);
    require(block.references == expected[static_cast<size_t>(id)], ErrorKind::kInternal, "KV block ", id,
            " has ", block.references, " references, but ", expected[static_cast<size_t>(id)],
            " sequences hold it");
    require(*block.position == id, ErrorKind::kInternal, "KV block ", id,
            " is in the wrong place of its list");
    unused += block.references == 0;
    if (block.link.content == 0) continue;
    ++registered;
    auto it = by_hash_.find(block.link.hash);
    require(it != by_hash_.end() && it->second == id, ErrorKind::kInternal, "KV block ", id,
            " is registered but not found");
  }
  require(unused == free_.size() && blocks_.size() - unused == used_.size(), ErrorKind::kInternal,
          "the KV cache has ", unused, " unused blocks, but ", free_.size(), " are in the free list");
  require(registered == by_hash_.size(), ErrorKind::kInternal, "the prefix map has stale entries");
}

}  // namespace quaver::llm
