// Counts, prefix hits, isolation by salt, eviction order and collisions of the block manager.
#include "llm/block_manager.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <random>

#include "base/error.h"

namespace quaver::llm {
namespace {

Sequence make_sequence(std::vector<int32_t> tokens, std::string salt = {}) {
  Sequence sequence;
  sequence.prompt_length = static_cast<int32_t>(tokens.size());
  sequence.tokens = std::move(tokens);
  sequence.cache_salt = std::move(salt);
  return sequence;
}

std::vector<int32_t> counting(int32_t count, int32_t from = 0) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

// As after a step that computed everything.
void compute(BlockManager& blocks, Sequence& sequence) {
  sequence.num_computed = sequence.length();
  blocks.register_computed(sequence);
}

void run_to_end(BlockManager& blocks, Sequence& sequence) {
  ASSERT_TRUE(blocks.allocate(sequence, 0));
  compute(blocks, sequence);
  blocks.release(sequence);
}

TEST(BlockManager, TakesJustTheBlocksNeeded) {
  BlockManager blocks({.num_blocks = 4, .block_size = 4});
  Sequence sequence = make_sequence(counting(9));
  ASSERT_TRUE(blocks.allocate(sequence, 0));
  EXPECT_EQ(sequence.blocks.size(), 3u);
  EXPECT_EQ(blocks.num_free(), 1);
  EXPECT_TRUE(blocks.extend(sequence, 12));
  EXPECT_EQ(blocks.num_free(), 1);
  EXPECT_TRUE(blocks.extend(sequence, 13));
  EXPECT_EQ(blocks.num_free(), 0);
  EXPECT_FALSE(blocks.extend(sequence, 17));
  EXPECT_EQ(sequence.blocks.size(), 4u);
  blocks.release(sequence);
  EXPECT_EQ(blocks.num_free(), 4);
}

TEST(BlockManager, RefusesWithoutChangingAnything) {
  BlockManager blocks({.num_blocks = 4, .block_size = 4});
  Sequence big = make_sequence(counting(17)), exact = make_sequence(counting(16));
  EXPECT_FALSE(blocks.allocate(big, 0));
  EXPECT_FALSE(blocks.allocate(exact, 1));
  EXPECT_TRUE(big.blocks.empty() && exact.blocks.empty());
  EXPECT_EQ(blocks.num_free(), 4);
  EXPECT_TRUE(blocks.allocate(exact, 0));
}

TEST(BlockManager, FindsTheLongestPrefixOfFullBlocks) {
  BlockManager blocks({.num_blocks = 16, .block_size = 4});
  Sequence first = make_sequence(counting(14));
  run_to_end(blocks, first);
  Sequence same = make_sequence(counting(14)), longer = make_sequence(counting(20));
  Sequence parts = make_sequence({0, 1, 2, 3, 4, 5, 6, 99, 8, 9, 10, 11, 12});
  ASSERT_TRUE(blocks.allocate(same, 0) && blocks.allocate(longer, 0) && blocks.allocate(parts, 0));
  EXPECT_EQ(same.num_computed, 12);
  EXPECT_EQ(longer.num_computed, 12);
  EXPECT_EQ(parts.num_computed, 4);
  EXPECT_EQ(same.blocks[2], longer.blocks[2]);
  EXPECT_NE(same.blocks[3], longer.blocks[3]);
  const Sequence* live[] = {&same, &longer, &parts};
  blocks.check(live);
}

TEST(BlockManager, LeavesOneTokenToCompute) {
  BlockManager blocks({.num_blocks = 8, .block_size = 4});
  Sequence first = make_sequence(counting(8)), again = make_sequence(counting(8));
  run_to_end(blocks, first);
  ASSERT_TRUE(blocks.allocate(again, 0));
  EXPECT_EQ(again.num_computed, 4);
  EXPECT_EQ(again.blocks.size(), 2u);
}

TEST(BlockManager, WhatWasNotComputedIsNotFound) {
  BlockManager blocks({.num_blocks = 8, .block_size = 4});
  Sequence first = make_sequence(counting(13)), again = make_sequence(counting(13));
  ASSERT_TRUE(blocks.allocate(first, 0));
  first.num_computed = 7;  // a chunk ended inside the second block
  blocks.register_computed(first);
  ASSERT_TRUE(blocks.allocate(again, 0));
  EXPECT_EQ(again.num_computed, 4);
}

TEST(BlockManager, SaltsDoNotShare) {
  BlockManager blocks({.num_blocks = 16, .block_size = 4});
  Sequence a = make_sequence(counting(9), "alice"), b = make_sequence(counting(9), "bob");
  Sequence none = make_sequence(counting(9)), a2 = make_sequence(counting(9), "alice");
  run_to_end(blocks, a);
  ASSERT_TRUE(blocks.allocate(b, 0) && blocks.allocate(none, 0) && blocks.allocate(a2, 0));
  EXPECT_EQ(b.num_computed, 0);
  EXPECT_EQ(none.num_computed, 0);
  EXPECT_EQ(a2.num_computed, 8);
}

TEST(BlockManager, SaltsDoNotShareEvenWhenHashesCollide) {
  BlockManager blocks({.num_blocks = 16, .block_size = 4, .hash_mask = 0});
  Sequence a = make_sequence(counting(9), "alice"), b = make_sequence(counting(9), "bob");
  run_to_end(blocks, a);
  ASSERT_TRUE(blocks.allocate(b, 0));
  EXPECT_EQ(b.num_computed, 0);
}

TEST(BlockManager, SameTokensAfterAnotherBeginningAreAnotherContent) {
  BlockManager blocks({.num_blocks = 16, .block_size = 2, .hash_mask = 1});  // collisions all the time
  Sequence first = make_sequence({1, 2, 7, 8, 0}), second = make_sequence({3, 4, 7, 8, 0});
  run_to_end(blocks, first);
  ASSERT_TRUE(blocks.allocate(second, 0));
  EXPECT_EQ(second.num_computed, 0);
}

TEST(BlockManager, CanBeTurnedOff) {
  BlockManager off({.num_blocks = 8, .block_size = 4, .prefix_caching = false}),
      on({.num_blocks = 8, .block_size = 4});
  Sequence first = make_sequence(counting(9)), again = make_sequence(counting(9));
  run_to_end(off, first);
  ASSERT_TRUE(off.allocate(again, 0));
  EXPECT_EQ(again.num_computed, 0);
  EXPECT_EQ(off.num_cached(), 0);
  Sequence scored = make_sequence(counting(9));
  scored.use_prefix_cache = false;
  first = make_sequence(counting(9));
  run_to_end(on, first);
  ASSERT_TRUE(on.allocate(scored, 0));
  EXPECT_EQ(scored.num_computed, 0);
}

TEST(BlockManager, EvictsWhatWasUnusedForLongestAndTailsBeforeHeads) {
  BlockManager blocks({.num_blocks = 6, .block_size = 2});
  Sequence old = make_sequence(counting(6)), recent = make_sequence(counting(6, 100));
  run_to_end(blocks, old);
  run_to_end(blocks, recent);
  EXPECT_EQ(blocks.num_cached(), 6);
  Sequence other = make_sequence(counting(4, 200));
  run_to_end(blocks, other);  // takes two of the oldest: the tail of `old`
  Sequence old_again = make_sequence(counting(5)), recent_again = make_sequence(counting(7, 100));
  ASSERT_TRUE(blocks.allocate(old_again, 3));
  EXPECT_EQ(old_again.num_computed, 2);  // its head is still there
  blocks.release(old_again);
  ASSERT_TRUE(blocks.allocate(recent_again, 0));
  EXPECT_EQ(recent_again.num_computed, 2);  // `old_again` took two more, the tail of this one
}

TEST(BlockManager, BlocksWithoutContentGoBeforeCachedOnes) {
  BlockManager blocks({.num_blocks = 4, .block_size = 2});
  Sequence kept = make_sequence(counting(4)), partial = make_sequence({9});
  run_to_end(blocks, kept);
  run_to_end(blocks, partial);
  Sequence two = make_sequence({7, 7, 7});
  ASSERT_TRUE(blocks.allocate(two, 0));
  EXPECT_EQ(blocks.num_cached(), 2);
}

TEST(BlockManager, TwinsComputedAtOnceShareLater) {
  BlockManager blocks({.num_blocks = 16, .block_size = 2});
  Sequence a = make_sequence(counting(7)), b = make_sequence(counting(7)), c = make_sequence(counting(7));
  ASSERT_TRUE(blocks.allocate(a, 0) && blocks.allocate(b, 0));
  compute(blocks, a);
  compute(blocks, b);
  EXPECT_EQ(blocks.num_cached(), 3);
  blocks.release(a);
  ASSERT_TRUE(blocks.allocate(c, 0));
  EXPECT_EQ(c.num_computed, 6);
  const Sequence* live[] = {&b, &c};
  blocks.check(live);
}

TEST(BlockManager, DiscardedContentIsNeverFound) {
  BlockManager blocks({.num_blocks = 8, .block_size = 2});
  Sequence bad = make_sequence(counting(6)), again = make_sequence(counting(6));
  ASSERT_TRUE(blocks.allocate(bad, 0));
  compute(blocks, bad);
  blocks.discard(bad);
  ASSERT_TRUE(blocks.allocate(again, 0));
  EXPECT_EQ(again.num_computed, 0);
}

TEST(BlockManager, CheckNoticesALeak) {
  BlockManager blocks({.num_blocks = 8, .block_size = 2});
  Sequence sequence = make_sequence(counting(6));
  ASSERT_TRUE(blocks.allocate(sequence, 0));
  EXPECT_THROW(blocks.check({}), Error);
  const Sequence* live[] = {&sequence};
  EXPECT_NO_THROW(blocks.check(live));
}

// Against a plain model: a prefix counts as known once a sequence with the same salt computed it; hits must
// never exceed that, and equal what it says while nothing was evicted.
TEST(BlockManager, RandomUseKeepsEveryInvariant) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
    BlockManager blocks({.num_blocks = pick(4, 40),
                         .block_size = pick(1, 5),
                         .hash_mask = pick(0, 2) ? ~uint64_t{0} : uint64_t{3}});
    std::map<std::pair<std::string, std::vector<int32_t>>, bool> known;
    std::vector<std::unique_ptr<Sequence>> live;
    for (int step = 0; step < 400; ++step) {
      if (int action = pick(0, 3); action == 0 || live.empty()) {
        std::vector<int32_t> tokens(static_cast<size_t>(pick(1, 24)));
        for (int32_t& token : tokens) token = pick(0, 1);
        auto sequence = std::make_unique<Sequence>(make_sequence(tokens, pick(0, 1) ? "x" : ""));
        if (blocks.allocate(*sequence, 0)) {
          ASSERT_LT(sequence->num_computed, sequence->length());
          std::vector<int32_t> prefix(tokens.begin(), tokens.begin() + sequence->num_computed);
          ASSERT_TRUE(prefix.empty() || known.count({sequence->cache_salt, prefix}));
          live.push_back(std::move(sequence));
        }
      } else {
        auto index = static_cast<size_t>(pick(0, static_cast<int>(live.size()) - 1));
        Sequence& sequence = *live[index];
        if (action == 1) {
          compute(blocks, sequence);
          for (size_t n = 1; n <= sequence.tokens.size(); ++n)
            known[{sequence.cache_salt,
                   {sequence.tokens.begin(), sequence.tokens.begin() + static_cast<long>(n)}}] = true;
        } else if (action == 2) {
          sequence.tokens.push_back(pick(0, 1));
          if (!blocks.extend(sequence, sequence.length())) sequence.tokens.pop_back();
        } else {
          if (pick(0, 9))
            blocks.release(sequence);
          else
            blocks.discard(sequence);
          live.erase(live.begin() + static_cast<long>(index));
        }
      }
      std::vector<const Sequence*> holders;
      for (auto& sequence : live) holders.push_back(sequence.get());
      ASSERT_NO_THROW(blocks.check(holders));
      for (auto& sequence : live)
        ASSERT_GE(static_cast<int32_t>(sequence->blocks.size()), blocks.blocks_for(sequence->length()));
    }
    for (auto& sequence : live) blocks.release(*sequence);
    EXPECT_EQ(blocks.num_free(), blocks.num_blocks());
    blocks.check({});
  }
}

}  // namespace
}  // namespace quaver::llm
