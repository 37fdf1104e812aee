// One step after another, and what becomes of those that fail.
#include "llm/engine_loop.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/thread_pool.h"
#include "nn/step_error.h"

namespace quaver::llm {
namespace {

constexpr int64_t kScoredRowsAtOnce = 64;   // bounds the memory for logits of prompts
constexpr int kFailuresUntilUnhealthy = 3;  // steps in a row of which nothing came

nn::PagedCacheOptions cache_options(const EngineModel& model, const EngineOptions& options) {
  const models::CausalLmInfo& info = model.model->info();
  return {.num_layers = info.num_layers,
          .num_kv_heads = info.num_kv_heads,
          .head_dim = info.head_dim,
          .num_blocks = options.num_blocks,
          .block_size = options.block_size,
          .dtype = options.kv_cache_dtype,
          .device = model.device};
}

}  // namespace

EngineLoop::EngineLoop(const EngineModel& model, const EngineOptions& options, Inbox& inbox,
                       StatsBoard& board)
    : aten_threads_(model.aten_threads),
      inbox_(inbox),
      board_(board),
      blocks_({.num_blocks = options.num_blocks,
               .block_size = options.block_size,
               .prefix_caching = options.prefix_caching}),
      scheduler_(options.scheduler, blocks_),
      runner_(model.model, cache_options(model, options)) {}

void EngineLoop::run() {
  c10::InferenceMode no_gradients;
  if (aten_threads_ > 0) at::set_num_threads(aten_threads_);
  try {
    loop();
  } catch (const std::exception& error) {
    healthy_ = false;
    log_error("the engine stopped: ", error.what());
  }
  inbox_.close();
  apply(inbox_.take(false));
  abort_all();
  publish();
}

void EngineLoop::loop() {
  for (;;) {
    Inbox::Commands commands = inbox_.take(live_.empty());
    bool stop = commands.stop;
    apply(std::move(commands));
    if (stop) return;
    step();
    publish();
  }
}

void EngineLoop::apply(Inbox::Commands commands) {
  for (auto& live : commands.arrivals) {
    scheduler_.add(live->sequence);
    arrival_of_[live->request.id] = live->sequence.arrival;
    live_.emplace(live->sequence.arrival, std::move(live));
  }
  for (const std::string& id : commands.aborts)
    if (auto it = arrival_of_.find(id); it != arrival_of_.end()) abort(*live_.at(it->second));
  if (commands.abort_all) abort_all();
}

void EngineLoop::step() {
  Batch batch = scheduler_.schedule();
  inbox_.set_waiting(scheduler_.num_waiting());
  if (batch.items.empty()) return;
  try {
    run_batch(batch);
    failed_in_a_row_ = 0;
  } catch (...) {
    recover(batch, std::current_exception());
  }
  healthy_ = failed_in_a_row_ < kFailuresUntilUnhealthy;
}

// Until `complete` nothing has changed that a repetition of the batch would not bring about again.
void EngineLoop::run_batch(const Batch& batch) {
  std::vector<Outcome> outcomes;
  for (const ScheduledSequence& item : batch.items)
    outcomes.push_back({.live = &live_of(*item.sequence), .sampled = item.samples()});
  runner_.forward(batch);
  score_prompts(batch, outcomes);
  sample(batch, outcomes);
  scheduler_.complete(batch);
  for (Outcome& outcome : outcomes) deliver(outcome);
}

void EngineLoop::score_prompts(const Batch& batch, std::vector<Outcome>& outcomes) const {
  int64_t first_row = 0;
  for (size_t i = 0; i < batch.items.size(); ++i) {
    const ScheduledSequence& item = batch.items[i];
    LiveRequest& live = *outcomes[i].live;
    // Empty when not asked for, and once they were sent: a preempted sequence computes its prompt again.
    if (!live.prompt_logprobs.empty()) try {
        score_prompt(item, first_row, live);
      } catch (const Error&) {
        outcomes[i].error = std::current_exception();
      }
    first_row += item.num_tokens;
  }
}

void EngineLoop::score_prompt(const ScheduledSequence& item, int64_t first_row, LiveRequest& live) const {
  const Sequence& sequence = *item.sequence;
  // Position p's logits speak of token p + 1; the last of the prompt speaks of the answer.
  int64_t end = std::min(sequence.num_computed + item.num_tokens, sequence.prompt_length - 1);
  for (int64_t begin = sequence.num_computed; begin < end; begin += kScoredRowsAtOnce) {
    std::vector<int64_t> rows;
    for (int64_t p = begin; p < std::min(end, begin + kScoredRowsAtOnce); ++p)
      rows.push_back(first_row + p - sequence.num_computed);
    LogitRows logits = runner_.logits(rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      size_t next = static_cast<size_t>(begin) + i + 1;
      std::span<const float> row = logits.row(static_cast<int64_t>(i));
      require(usable_logits(row), ErrorKind::kNonFinite, "the model's logits for prompt token ", next,
              " are not finite");
      live.prompt_logprobs[next] =
          position_logprobs(row, sequence.tokens[next], *live.params().prompt_logprobs);
    }
  }
}

void EngineLoop::sample(const Batch& batch, std::vector<Outcome>& outcomes) const {
  std::vector<int64_t> rows;
  std::vector<Outcome*> sampling;
  int64_t end = 0;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    end += batch.items[i].num_tokens;
    Outcome& outcome = outcomes[i];
    if (!outcome.sampled || outcome.error || outcome.live->params().max_tokens == 0) continue;
    rows.push_back(end - 1);
    sampling.push_back(&outcome);
  }
  if (rows.empty()) return;
  LogitRows logits = runner_.logits(rows);
  auto pick = [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) try {
        Outcome& outcome = *sampling[static_cast<size_t>(i)];
        outcome.pick = outcome.live->sampler.pick(logits.row(i));
      } catch (...) {
        sampling[static_cast<size_t>(i)]->error = std::current_exception();
      }
  };
  global_thread_pool().parallel_for(static_cast<int64_t>(rows.size()), 1, pick);
}

void EngineLoop::deliver(Outcome& outcome) {
  LiveRequest& live = *outcome.live;
  if (outcome.error) return fail(live, outcome.error);
  if (!outcome.sampled) return;
  Event event;
  if (live.sequence.output_length() == 0) {
    event.prompt_logprobs = std::exchange(live.prompt_logprobs, {});
    live.sequence.use_prefix_cache = true;
    step_stats_.prompt_tokens += live.sequence.prompt_length;
    step_stats_.cached_prompt_tokens += live.sequence.cached_tokens;
  }
  if (live.params().max_tokens == 0)
    event.finish = FinishReason::kLength;
  else
    take_token(live, std::move(outcome.pick), event);
  if (event.finish != FinishReason::kNone) return end(live, std::move(event));
  event.usage = live.usage();
  send(live, std::move(event));
}

void EngineLoop::take_token(LiveRequest& live, Sampler::Pick pick, Event& event) {
  auto now = Clock::now();
  auto seconds_since = [&](Clock::time_point then) {
    return std::chrono::duration<double>(now - then).count();
  };
  if (live.sequence.output_length() == 0)
    step_stats_.time_to_first_token_s.push_back(seconds_since(live.submitted));
  else
    step_stats_.inter_token_s.push_back(seconds_since(live.last_token));
  live.last_token = now;
  ++step_stats_.generation_tokens;
  live.sequence.tokens.push_back(pick.token);
  event.tokens = {pick.token};
  if (live.params().logprobs) event.logprobs.push_back(std::move(pick.logprobs));
  Output::Step step = live.output.push(pick.token);
  event.text = std::move(step.text);
  event.finish = step.finish;
  event.stop_text = std::move(step.stop_text);
  event.stop_token = step.stop_token;
}

void EngineLoop::recover(const Batch& batch, std::exception_ptr error) {
  Error reason = nn::step_error(error);
  if (reason.kind() == ErrorKind::kOutOfMemory && scheduler_.shrink(batch)) {
    log_warning("out of memory in a step of ", batch.total_tokens, " tokens; going on with smaller steps");
    return;
  }
  log_error("a step of ", batch.items.size(), " sequences failed: ", reason.what());
  if (batch.items.size() > 1) return run_apart(batch);
  ++failed_in_a_row_;
  fail(live_of(*batch.items[0].sequence), error);
}

void EngineLoop::run_apart(const Batch& batch) {
  size_t failures = 0;
  for (const ScheduledSequence& item : batch.items) try {
      run_batch({.items = {item}, .total_tokens = item.num_tokens});
    } catch (...) {
      ++failures;
      fail(live_of(*item.sequence), std::current_exception());
    }
  failed_in_a_row_ = failures == batch.items.size() ? failed_in_a_row_ + 1 : 0;
}

void EngineLoop::fail(LiveRequest& live, std::exception_ptr error) {
  Event event;
  event.finish = FinishReason::kError;
  event.error = nn::step_error(error);
  bool non_finite = event.error->kind() == ErrorKind::kNonFinite;
  step_stats_.non_finite += non_finite;
  event.text = live.output.flush();
  end(live, std::move(event), !non_finite);
}

void EngineLoop::abort(LiveRequest& live) {
  Event event;
  event.finish = FinishReason::kAbort;
  event.text = live.output.flush();
  end(live, std::move(event));
}

void EngineLoop::abort_all() {
  while (!live_.empty()) abort(*live_.begin()->second);
}

void EngineLoop::end(LiveRequest& live, Event event, bool trusted) {
  switch (event.finish) {
    case FinishReason::kStop:
      ++step_stats_.finished_stop;
      break;
    case FinishReason::kLength:
      ++step_stats_.finished_length;
      break;
    case FinishReason::kAbort:
      ++step_stats_.finished_abort;
      break;
    default:
      ++step_stats_.finished_error;
      break;
  }
  step_stats_.e2e_s.push_back(std::chrono::duration<double>(Clock::now() - live.submitted).count());
  event.usage = live.usage();
  scheduler_.remove(live.sequence, trusted);
  send(live, std::move(event));
  arrival_of_.erase(live.request.id);
  ++ended_;
  live_.erase(live.sequence.arrival);  // `live` is gone
}

void EngineLoop::send(LiveRequest& live, Event event) {
  event.request_id = live.request.id;
  outgoing_.emplace_back(live.sink, std::move(event));
}

// Numbers first, so that whoever sees a request end also sees it counted.
void EngineLoop::publish() {
  step_stats_.running = scheduler_.num_running();
  step_stats_.waiting = scheduler_.num_waiting();
  step_stats_.preemptions = scheduler_.num_preemptions();
  step_stats_.kv_cache_usage = static_cast<double>(blocks_.num_used()) / blocks_.num_blocks();
  board_.add(step_stats_);
  step_stats_ = {};
  inbox_.set_waiting(scheduler_.num_waiting());
  for (auto& [sink, event] : outgoing_) try {
      if (event.finish != FinishReason::kNone) inbox_.release_id(event.request_id);
      sink(std::move(event));
    } catch (const std::exception& error) {
      log_error("the receiver of an event threw: ", error.what());
    }
  outgoing_.clear();
  if (ended_ > 0) inbox_.ended(std::exchange(ended_, 0));
}

}  // namespace quaver::llm
