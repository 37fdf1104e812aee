// Decides which sequences compute how many tokens in the next step.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "llm/block_manager.h"
#include "llm/sequence.h"

namespace quaver::llm {

struct SchedulerOptions {
  int32_t max_num_seqs = 64;              // running at once
  int32_t max_num_batched_tokens = 2048;  // of one step; at least max_num_seqs
  // Off: a prompt is computed in one step, decoding neighbours do not count against the budget, and
  // max_num_batched_tokens must be at least max_model_len.
  bool chunked_prefill = true;
  int32_t max_model_len = 0;  // prompt and output together
};

// One sequence's share of a step: the next `num_tokens` of its tokens.
struct ScheduledSequence {
  Sequence* sequence = nullptr;
  int32_t num_tokens = 0;
  // Whether the step ends at the newest token, so that its logits give the next one.
  bool samples() const { return num_tokens == sequence->num_pending(); }
};

struct Batch {
  std::vector<ScheduledSequence> items;
  int32_t total_tokens = 0;
};

// Continuous batching: each step takes one token of every decoding sequence, then chunks of the prompts under
// way, then new arrivals while the budget, the sequence limit and the cache allow it. First come, first
// served, with no overtaking; blocks for a whole prompt are taken when it is admitted. When the cache is full
// the newest running sequence goes back to the queue, in its old place, and computes its tokens again later.
// The oldest is therefore never disturbed, and since every sequence fits alone, every one finishes.
//
// Borrows the sequences and the block manager. Not thread safe.
class Scheduler {
 public:
  // Throws Error(kInvalidInput) naming the option that does not fit the others.
  Scheduler(const SchedulerOptions& options, BlockManager& blocks);

  // Throws Error(kInvalidInput), field "prompt" or "max_tokens", unless a sequence of this kind can finish
  // when it has the cache to itself. Thread safe.
  void check_fits(int32_t prompt_length, int32_t max_tokens) const;

  void add(Sequence& sequence);
  // Empty only when there is nothing to do.
  Batch schedule();
  // The batch's tokens are in the cache now. A step that failed is simply not completed, and its tokens are
  // scheduled again.
  void complete(const Batch& batch);
  // The sequence ended, for whatever reason. `trusted` false: what it put into the cache must not be found
  // again.
  void remove(Sequence& sequence, bool trusted = true);

  // A step of this batch ran out of memory: smaller steps and fewer sequences for a while. False when the
  // batch was as small as can be.
  bool shrink(const Batch& batch);

  int32_t num_running() const { return static_cast<int32_t>(running_.size()); }
  int32_t num_waiting() const { return static_cast<int32_t>(waiting_.size()); }
  int64_t num_preemptions() const { return num_preemptions_; }

 private:
  using ByArrival = std::map<uint64_t, Sequence*>;
  struct Step;  // a batch under construction
  void schedule_decodes(Step& step);
  void schedule_prefills(Step& step);
  void admit(Step& step);
  bool make_room(Sequence& sequence);
  void preempt_newest();
  bool shrunk() const { return token_limit_ < options_.max_num_batched_tokens; }
  bool whole_prompts() const { return !options_.chunked_prefill && !shrunk(); }

  SchedulerOptions options_;
  BlockManager& blocks_;
  ByArrival waiting_, running_;
  int32_t token_limit_, sequence_limit_;  // the options', or less after shrink
  int64_t num_preemptions_ = 0;
};

}  // namespace quaver::llm
