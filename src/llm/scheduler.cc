// The three passes of a step (decodes, prompts under way, arrivals) and preemption.
#include "llm/scheduler.h"

#include <algorithm>

#include "base/error.h"

namespace quaver::llm {
namespace {

void check_options(const SchedulerOptions& options) {
  auto check = [](bool good, const char* field, const auto&... message) {
    if (!good) throw Error(ErrorKind::kInvalidInput, cat(field, " ", message...), field);
  };
  check(options.max_num_seqs >= 1, "max_num_seqs", "must be at least 1, got ", options.max_num_seqs);
  check(options.max_model_len >= 1, "max_model_len", "must be at least 1, got ", options.max_model_len);
  check(options.max_num_batched_tokens >= options.max_num_seqs, "max_num_batched_tokens",
        "must be at least max_num_seqs (", options.max_num_seqs, "), got ", options.max_num_batched_tokens);
  check(options.chunked_prefill || options.max_num_batched_tokens >= options.max_model_len,
        "max_num_batched_tokens", "must be at least max_model_len (", options.max_model_len,
        ") when chunked prefill is off, got ", options.max_num_batched_tokens);
}

}  // namespace

struct Scheduler::Step {
  Batch batch;
  int32_t budget = 0;

  void take(Sequence& sequence, int32_t num_tokens, bool counts) {
    batch.items.push_back({&sequence, num_tokens});
    batch.total_tokens += num_tokens;
    if (counts) budget -= num_tokens;
  }
};

Scheduler::Scheduler(const SchedulerOptions& options, BlockManager& blocks)
    : options_(options),
      blocks_(blocks),
      token_limit_(options.max_num_batched_tokens),
      sequence_limit_(options.max_num_seqs) {
  check_options(options);
}

void Scheduler::check_fits(int32_t prompt_length, int32_t max_tokens) const {
  auto check = [](bool good, const char* field, const auto&... message) {
    if (!good) throw Error(ErrorKind::kInvalidInput, cat(message...), field);
  };
  int64_t total = int64_t{prompt_length} + max_tokens;
  int64_t in_cache = max_tokens > 0 ? total - 1 : total;  // the last token's keys and values are never needed
  int64_t capacity = int64_t{blocks_.num_blocks()} * blocks_.block_size();
  int32_t longest = options_.max_model_len - (max_tokens > 0 ? 1 : 0);
  check(prompt_length >= 1, "prompt", "prompt must not be empty");
  check(prompt_length <= longest, "prompt", "prompt has ", prompt_length,
        " tokens, but the longest that leaves room ", "for an answer within the model's context of ",
        options_.max_model_len, " is ", longest);
  check(prompt_length <= capacity, "prompt", "prompt has ", prompt_length,
        " tokens, but the KV cache holds only ", capacity);
  check(total <= options_.max_model_len, "max_tokens", "max_tokens must be at most ",
        options_.max_model_len - prompt_length, " after a prompt of ", prompt_length,
        " tokens (the model's context is ", options_.max_model_len, "), got ", max_tokens);
  check(in_cache <= capacity, "max_tokens", "max_tokens must be at most ", capacity + 1 - prompt_length,
        " after a prompt of ", prompt_length, " tokens (the KV cache holds ", capacity, "), got ",
        max_tokens);
}

void Scheduler::add(Sequence& sequence) { waiting_.emplace(sequence.arrival, &sequence); }

Batch Scheduler::schedule() {
  Step step;
  step.budget = token_limit_;
  schedule_decodes(step);
  schedule_prefills(step);
  admit(step);
  return std::move(step.batch);
}

void Scheduler::schedule_decodes(Step& step) {
  uint64_t arrival = 0;
  // By key, since make_room takes sequences out at the far end.
  for (auto it = running_.begin(); it != running_.end() && step.budget > 0;
       it = running_.upper_bound(arrival)) {
    Sequence& sequence = *it->second;
    arrival = sequence.arrival;
    if (sequence.num_pending() != 1) continue;
    if (make_room(sequence)) step.take(sequence, 1, !whole_prompts());
  }
}

void Scheduler::schedule_prefills(Step& step) {
  for (auto& [arrival, sequence] : running_) {
    if (step.budget == 0) break;
    int32_t pending = sequence->num_pending();
    if (pending > 1) step.take(*sequence, std::min(pending, step.budget), true);
  }
}

void Scheduler::admit(Step& step) {
  while (!waiting_.empty() && step.budget > 0 && num_running() < sequence_limit_) {
    Sequence& sequence = *waiting_.begin()->second;
    // A block for each running sequence to grow into, or this one would be preempted right after its prompt.
    if (!blocks_.allocate(sequence, num_running())) break;
    int32_t pending = sequence.num_pending();
    if (whole_prompts() && pending > step.budget) {
      blocks_.release(sequence);
      break;
    }
    if (!sequence.admitted_before) sequence.cached_tokens = sequence.num_computed;
    sequence.admitted_before = true;
    running_.insert(waiting_.extract(waiting_.begin()));
    step.take(sequence, std::min(pending, step.budget), true);
  }
}

bool Scheduler::make_room(Sequence& sequence) {
  while (!blocks_.extend(sequence, sequence.length())) {
    bool itself = running_.rbegin()->second == &sequence;
    preempt_newest();
    if (itself) return false;
  }
  return true;
}

void Scheduler::preempt_newest() {
  auto newest = std::prev(running_.end());
  blocks_.release(*newest->second);
  waiting_.insert(running_.extract(newest));
  ++num_preemptions_;
}

void Scheduler::complete(const Batch& batch) {
  for (const ScheduledSequence& item : batch.items) {
    item.sequence->num_computed += item.num_tokens;
    blocks_.register_computed(*item.sequence);
  }
  // Back to full size gently: an eighth more after each step that went well.
  auto grow = [](int32_t limit, int32_t full) {
    return static_cast<int32_t>(std::min<int64_t>(full, int64_t{limit} + std::max(1, limit / 8)));
  };
  token_limit_ = grow(token_limit_, options_.max_num_batched_tokens);
  sequence_limit_ = grow(sequence_limit_, options_.max_num_seqs);
}

void Scheduler::remove(Sequence& sequence, bool trusted) {
  if (trusted)
    blocks_.release(sequence);
  else
    blocks_.discard(sequence);
  running_.erase(sequence.arrival);
  waiting_.erase(sequence.arrival);
}

bool Scheduler::shrink(const Batch& batch) {
  if (batch.total_tokens <= 1) return false;
  auto sequences = static_cast<int32_t>(batch.items.size());
  token_limit_ = std::max(1, batch.total_tokens / 2);
  sequence_limit_ = std::max(1, sequences / 2);
  while (num_running() > sequence_limit_) preempt_newest();
  return true;
}

}  // namespace quaver::llm
