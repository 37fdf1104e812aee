// Budget, order, preemption and progress of the scheduler, by hand and under random workloads.
#include "llm/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "base/error.h"

namespace quaver::llm {
namespace {

// A scheduler with its cache and sequences; "computes" a step by letting every sampling sequence grow.
struct World {
  World(SchedulerOptions options, BlockManagerOptions cache) : blocks(cache), scheduler(options, blocks) {}

  Sequence& add(int32_t prompt_length, int32_t max_tokens, int32_t first_token = -1) {
    auto sequence = std::make_unique<Sequence>();
    sequence->arrival = ++arrivals;
    sequence->prompt_length = prompt_length;
    for (int32_t i = 0; i < prompt_length; ++i)
      sequence->tokens.push_back(first_token < 0 ? static_cast<int32_t>(arrivals * 1000) + i
                                                 : first_token + i);
    scheduler.check_fits(prompt_length, max_tokens);
    scheduler.add(*sequence);
    limits[sequence.get()] = max_tokens;
    live.push_back(std::move(sequence));
    return *live.back();
  }

  // Returns those that finished.
  std::vector<uint64_t> finish_step(const Batch& batch) {
    std::vector<Sequence*> sampling;
    for (const ScheduledSequence& item : batch.items)
      if (item.samples()) sampling.push_back(item.sequence);
    scheduler.complete(batch);
    std::vector<uint64_t> finished;
    for (Sequence* sequence : sampling) {
      sequence->tokens.push_back(7);
      if (sequence->output_length() < limits[sequence]) continue;
      finished.push_back(sequence->arrival);
      end(*sequence);
    }
    return finished;
  }

  void end(Sequence& sequence) {
    scheduler.remove(sequence);
    limits.erase(&sequence);
    std::erase_if(live, [&](auto& item) { return item.get() == &sequence; });
  }

  void check() const {
    std::vector<const Sequence*> all;
    for (auto& sequence : live) all.push_back(sequence.get());
    blocks.check(all);
  }

  uint64_t arrivals = 0;
  BlockManager blocks;
  Scheduler scheduler;
  std::vector<std::unique_ptr<Sequence>> live;
  std::map<const Sequence*, int32_t> limits;
};

SchedulerOptions options(int32_t seqs, int32_t tokens, int32_t length = 1000, bool chunked = true) {
  return {.max_num_seqs = seqs,
          .max_num_batched_tokens = tokens,
          .chunked_prefill = chunked,
          .max_model_len = length};
}

std::vector<std::pair<uint64_t, int32_t>> shares(const Batch& batch) {
  std::vector<std::pair<uint64_t, int32_t>> result;
  for (const ScheduledSequence& item : batch.items)
    result.emplace_back(item.sequence->arrival, item.num_tokens);
  return result;
}
using Shares = std::vector<std::pair<uint64_t, int32_t>>;

TEST(Scheduler, CutsPromptsToTheBudget) {
  World world(options(4, 8), {.num_blocks = 32, .block_size = 4});
  world.add(20, 3);
  Batch step = world.scheduler.schedule();
  EXPECT_EQ(shares(step), (Shares{{1, 8}}));
  EXPECT_FALSE(step.items[0].samples());
  world.finish_step(step);
  step = world.scheduler.schedule();
  world.finish_step(step);
  step = world.scheduler.schedule();
  EXPECT_EQ(shares(step), (Shares{{1, 4}}));
  EXPECT_TRUE(step.items[0].samples());
}

TEST(Scheduler, DecodesGoBeforePromptsAndPromptsFillTheRest) {
  World world(options(4, 8), {.num_blocks = 32, .block_size = 4});
  world.add(3, 5);
  world.finish_step(world.scheduler.schedule());
  world.add(20, 2);
  EXPECT_EQ(shares(world.scheduler.schedule()), (Shares{{1, 1}, {2, 7}}));
}

TEST(Scheduler, ArrivalsNeverOvertake) {
  World world(options(4, 16), {.num_blocks = 4, .block_size = 4});
  world.add(12, 2);
  world.finish_step(world.scheduler.schedule());
  world.add(8, 2);  // does not fit now
  world.add(1, 2);  // would
  EXPECT_EQ(shares(world.scheduler.schedule()), (Shares{{1, 1}}));
  EXPECT_EQ(world.scheduler.num_waiting(), 2);
}

TEST(Scheduler, RespectsTheSequenceLimit) {
  World world(options(2, 16), {.num_blocks = 16, .block_size = 4});
  for (int i = 0; i < 5; ++i) world.add(1, 3);
  EXPECT_EQ(world.scheduler.schedule().items.size(), 2u);
  EXPECT_EQ(world.scheduler.num_running(), 2);
}

TEST(Scheduler, PreemptsTheNewestAndPutsItBackInItsPlace) {
  World world(options(8, 64), {.num_blocks = 6, .block_size = 4, .prefix_caching = false});
  world.add(8, 13);  // 2 blocks now, 5 at the end
  world.add(8, 13);
  world.finish_step(world.scheduler.schedule());
  world.finish_step(world.scheduler.schedule());  // both take a third block: full
  world.add(1, 1);
  for (int i = 0; i < 3; ++i) world.finish_step(world.scheduler.schedule());
  EXPECT_EQ(world.scheduler.num_preemptions(), 0);
  Batch step = world.scheduler.schedule();  // 13 tokens each: two more blocks wanted
  EXPECT_EQ(shares(step), (Shares{{1, 1}}));
  EXPECT_EQ(world.scheduler.num_preemptions(), 1);
  EXPECT_EQ(world.scheduler.num_waiting(), 2);
  EXPECT_TRUE(world.live[1]->blocks.empty());
  std::vector<uint64_t> order;
  world.finish_step(step);
  while (!world.live.empty())
    for (uint64_t arrival : world.finish_step(world.scheduler.schedule())) order.push_back(arrival);
  EXPECT_EQ(order.front(), 1u);
}

TEST(Scheduler, NewcomersLeaveRoomToGrow) {
  World world(options(8, 64), {.num_blocks = 6, .block_size = 4});
  world.add(8, 9);
  world.finish_step(world.scheduler.schedule());
  world.finish_step(world.scheduler.schedule());  // a third block
  world.add(12, 1);                               // would take the other three
  EXPECT_EQ(world.scheduler.schedule().items.size(), 1u);
  World empty(options(8, 64), {.num_blocks = 6, .block_size = 4});
  empty.add(24, 1);  // nobody to leave room for
  EXPECT_EQ(empty.scheduler.schedule().items.size(), 1u);
}

TEST(Scheduler, WholePromptsWhenChunkingIsOff) {
  World world(options(8, 32, 32, false), {.num_blocks = 32, .block_size = 4});
  world.add(20, 3);
  world.add(20, 3);
  EXPECT_EQ(shares(world.scheduler.schedule()), (Shares{{1, 20}}));
  EXPECT_TRUE(world.live[1]->blocks.empty());
}

TEST(Scheduler, WholePromptOfFullBudgetIsNotHeldUpByDecodes) {
  World world(options(8, 32, 32, false), {.num_blocks = 32, .block_size = 4});
  world.add(4, 20);
  world.add(4, 20);
  world.finish_step(world.scheduler.schedule());
  world.add(31, 1);
  EXPECT_EQ(shares(world.scheduler.schedule()), (Shares{{1, 1}, {2, 1}, {3, 31}}));
}

TEST(Scheduler, SharedPrefixIsComputedOnce) {
  World world(options(8, 64), {.num_blocks = 32, .block_size = 4});
  world.add(13, 2, 500);
  world.finish_step(world.scheduler.schedule());
  Sequence& second = world.add(14, 2, 500);
  EXPECT_EQ(shares(world.scheduler.schedule()), (Shares{{1, 1}, {2, 2}}));
  EXPECT_EQ(second.cached_tokens, 12);
}

TEST(Scheduler, RefusesWhatCanNeverFit) {
  World world(options(8, 64, 100), {.num_blocks = 8, .block_size = 4});
  auto field = [&](int32_t prompt, int32_t max_tokens) -> std::string {
    try {
      world.scheduler.check_fits(prompt, max_tokens);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
      return error.field();
    }
    return "";
  };
  EXPECT_EQ(field(32, 1), "");
  EXPECT_EQ(field(1, 32), "");
  EXPECT_EQ(field(1, 33), "max_tokens");
  EXPECT_EQ(field(33, 1), "prompt");
  EXPECT_EQ(field(0, 1), "prompt");
  EXPECT_EQ(field(100, 1), "prompt");
  EXPECT_EQ(field(10, 91), "max_tokens");
  EXPECT_EQ(field(1, 2147483647), "max_tokens");
  EXPECT_EQ(field(32, 0), "");
}

TEST(Scheduler, RefusesOptionsThatCannotProgress) {
  BlockManager blocks({.num_blocks = 8, .block_size = 4});
  EXPECT_THROW(Scheduler(options(16, 8), blocks), Error);
  EXPECT_THROW(Scheduler(options(0, 8), blocks), Error);
  EXPECT_THROW(Scheduler(options(2, 8, 0), blocks), Error);
  EXPECT_THROW(Scheduler(options(2, 8, 9, false), blocks), Error);
  EXPECT_NO_THROW(Scheduler(options(2, 8, 8, false), blocks));
}

TEST(Scheduler, AFailedStepIsScheduledAgain) {
  World world(options(4, 8), {.num_blocks = 32, .block_size = 4});
  world.add(6, 3);
  Batch failed = world.scheduler.schedule();
  Batch again = world.scheduler.schedule();
  EXPECT_EQ(shares(failed), shares(again));
}

TEST(Scheduler, ShrinksAfterOutOfMemoryAndGrowsBack) {
  World world(options(16, 64), {.num_blocks = 64, .block_size = 4});
  for (int i = 0; i < 8; ++i) world.add(8, 200 / 8);
  Batch big = world.scheduler.schedule();
  ASSERT_EQ(big.total_tokens, 64);
  EXPECT_TRUE(world.scheduler.shrink(big));
  EXPECT_EQ(world.scheduler.num_running(), 4);
  Batch smaller = world.scheduler.schedule();
  EXPECT_LE(smaller.total_tokens, 32);
  size_t finished = 0;
  int steps = 0;
  for (Batch step = smaller; !step.items.empty() && steps < 1000; step = world.scheduler.schedule(), ++steps)
    finished += world.finish_step(step).size();
  EXPECT_EQ(finished, 8u);
  world.add(100, 1);
  Batch full = world.scheduler.schedule();
  EXPECT_EQ(full.total_tokens, 64);
  world.finish_step(full);
  world.finish_step(world.scheduler.schedule());
  world.add(1, 1);
  Batch single = world.scheduler.schedule();
  EXPECT_FALSE(world.scheduler.shrink(single));
}

struct Workload {
  SchedulerOptions scheduler;
  BlockManagerOptions cache;
  int requests = 0;
  double abort_rate = 0, failure_rate = 0;
};

Workload random_workload(std::mt19937& random) {
  auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  Workload work;
  int block_size = pick(1, 8), num_blocks = pick(2, 40);
  int length = pick(2, block_size * num_blocks + 10);
  bool chunked = pick(0, 3) > 0;
  int seqs = pick(1, 12);
  int tokens = std::max(seqs, chunked ? pick(1, 40) : length + pick(0, 10));
  work.scheduler = options(seqs, tokens, length, chunked);
  work.cache = {.num_blocks = num_blocks,
                .block_size = block_size,
                .prefix_caching = pick(0, 1) == 1,
                .hash_mask = pick(0, 4) ? ~uint64_t{0} : uint64_t{7}};
  work.requests = pick(1, 40);
  work.abort_rate = pick(0, 1) * 0.05;
  work.failure_rate = pick(0, 2) == 0 ? 0.1 : 0;
  return work;
}

void check_batch(const Workload& work, const World& world, const Batch& batch) {
  int32_t total = 0, counted = 0;
  for (const ScheduledSequence& item : batch.items) {
    const Sequence& sequence = *item.sequence;
    ASSERT_GE(item.num_tokens, 1);
    ASSERT_LE(item.num_tokens, sequence.num_pending());
    ASSERT_GE(static_cast<int32_t>(sequence.blocks.size()),
              world.blocks.blocks_for(sequence.num_computed + item.num_tokens));
    total += item.num_tokens;
    if (work.scheduler.chunked_prefill || sequence.num_pending() > 1) counted += item.num_tokens;
  }
  ASSERT_EQ(total, batch.total_tokens);
  ASSERT_LE(counted, work.scheduler.max_num_batched_tokens);
  ASSERT_LE(world.scheduler.num_running(), work.scheduler.max_num_seqs);
}

TEST(Scheduler, EveryRandomWorkloadFinishesWithTheCacheEmpty) {
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
    auto chance = [&](double p) { return std::uniform_real_distribution<>()(random) < p; };
    Workload work = random_workload(random);
    World world(work.scheduler, work.cache);
    int to_come = work.requests, refused = 0, aborted = 0, finished = 0;
    uint64_t oldest = 0;
    int32_t oldest_computed = 0;
    for (int step = 0; to_come > 0 || !world.live.empty(); ++step) {
      ASSERT_LT(step, 100000) << "no progress";
      for (; to_come > 0 && (chance(0.3) || world.live.empty()); --to_come) {
        try {
          world.add(pick(1, work.scheduler.max_model_len), pick(1, 30), pick(0, 1) ? 0 : -1);
        } catch (const Error&) {
          ++refused;
        }
      }
      if (!world.live.empty() && chance(work.abort_rate)) {
        world.end(*world.live[static_cast<size_t>(pick(0, static_cast<int>(world.live.size()) - 1))]);
        ++aborted;
      }
      Batch batch = world.scheduler.schedule();
      ASSERT_EQ(batch.items.empty(), world.live.empty());
      check_batch(work, world, batch);
      if (testing::Test::HasFatalFailure()) return;
      world.check();
      if (batch.items.empty()) continue;
      // The oldest that lives is in every step and never loses what it has computed.
      const Sequence& first = *world.live.front();
      ASSERT_TRUE(std::ranges::any_of(batch.items, [&](auto& item) { return item.sequence == &first; }));
      if (oldest == first.arrival) {
        ASSERT_GE(first.num_computed, oldest_computed);
      }
      oldest = first.arrival;
      oldest_computed = first.num_computed;
      if (chance(work.failure_rate)) {
        if (chance(0.5)) world.scheduler.shrink(batch);
        if (world.live.front()->blocks.empty()) oldest = 0;
        continue;
      }
      finished += static_cast<int>(world.finish_step(batch).size());
      world.check();
    }
    EXPECT_EQ(finished + refused + aborted, work.requests);
    EXPECT_EQ(world.blocks.num_free(), world.blocks.num_blocks());
    EXPECT_EQ(world.scheduler.num_running() + world.scheduler.num_waiting(), 0);
  }
}

}  // namespace
}  // namespace quaver::llm
