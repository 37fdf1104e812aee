// What the engine's thread does: schedule, run, postprocess, and recover when a step fails.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "llm/engine.h"
#include "llm/inbox.h"
#include "llm/runner.h"

namespace quaver::llm {

// run() belongs to one thread; check() and healthy() are thread safe.
class EngineLoop {
 public:
  EngineLoop(const EngineModel& model, const EngineOptions& options, Inbox& inbox, StatsBoard& board);

  // Whether the cache and the context can hold such a request; throws as Scheduler::check_fits.
  void check(int32_t prompt_length, int32_t max_tokens) const {
    scheduler_.check_fits(prompt_length, max_tokens);
  }
  bool healthy() const { return healthy_; }
  void run();  // until Inbox::stop

 private:
  // What a step found out about one request.
  struct Outcome {
    LiveRequest* live = nullptr;
    bool sampled = false;
    Sampler::Pick pick;
    std::exception_ptr error;
  };

  void loop();
  void apply(Inbox::Commands commands);
  void step();
  void run_batch(const Batch& batch);
  void score_prompts(const Batch& batch, std::vector<Outcome>& outcomes) const;
  void score_prompt(const ScheduledSequence& item, int64_t first_row, LiveRequest& live) const;
  void sample(const Batch& batch, std::vector<Outcome>& outcomes) const;
  void deliver(Outcome& outcome);
  void take_token(LiveRequest& live, Sampler::Pick pick, Event& event);
  void recover(const Batch& batch, std::exception_ptr error);
  void run_apart(const Batch& batch);
  void fail(LiveRequest& live, std::exception_ptr error);
  void abort(LiveRequest& live);
  void abort_all();
  void end(LiveRequest& live, Event event, bool trusted = true);
  void send(LiveRequest& live, Event event);
  void publish();
  LiveRequest& live_of(const Sequence& sequence) { return *live_.at(sequence.arrival); }

  int aten_threads_;
  Inbox& inbox_;
  StatsBoard& board_;
  BlockManager blocks_;
  Scheduler scheduler_;
  Runner runner_;
  std::unordered_map<uint64_t, std::unique_ptr<LiveRequest>> live_;  // by arrival
  std::unordered_map<std::string, uint64_t> arrival_of_;             // by id
  std::vector<std::pair<EventSink, Event>> outgoing_;                // of this step
  Stats step_stats_;
  int64_t ended_ = 0;        // in this step
  int failed_in_a_row_ = 0;  // steps of which nothing came
  std::atomic<bool> healthy_ = true;
};

}  // namespace quaver::llm
