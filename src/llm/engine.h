// The text engine: takes requests from any thread, runs them together on one, sends events back.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "llm/request.h"
#include "llm/scheduler.h"
#include "llm/stats.h"
#include "models/llm/causal_lm.h"
#include "text/tokenizer.h"

namespace quaver::llm {

struct EngineOptions {
  SchedulerOptions scheduler;
  int32_t block_size = 16;  // tokens
  int32_t num_blocks = 0;   // of the KV cache
  at::ScalarType kv_cache_dtype = at::kBFloat16;
  bool prefix_caching = true;
  int64_t max_queue = 1024;  // requests that wait for admission
};

struct EngineModel {
  std::shared_ptr<const models::CausalLm> model;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<int32_t> end_tokens;  // that end an answer unless ignore_eos
  at::Device device = at::kCPU;     // where the model lies
  // Of ATen on the engine's thread; 0 = ATen's own choice. 1 where kernels do the work on the CPU: what is
  // left for ATen is small, and its threads would spin in the way of the kernels' pool.
  int aten_threads = 0;
};

// Starts its thread when built, aborts everything and joins it when destroyed. Each step is: take commands,
// schedule, run the model, sample, send events. Guarantees:
// - an abort frees the request's blocks before the next step;
// - a step that throws is repeated sequence by sequence, so that only the requests at fault end with kError;
// - running out of memory makes smaller steps and preempts, and fails a request only when it runs alone;
// - logits that are not finite end that request alone, with Error(kNonFinite), and nothing it cached is
// reused.
class Engine {
 public:
  // Throws Error(kInvalidInput) naming the option that does not fit, Error(kOutOfMemory) when the cache does
  // not.
  Engine(EngineModel model, const EngineOptions& options);
  ~Engine();

  // Thread safe, all of them.

  // Checks the request completely and queues it. Throws Error(kInvalidInput), field named, or
  // Error(kUnavailable) when the queue is full or the engine is draining. The sink is called on the engine's
  // thread.
  void submit(Request request, EventSink sink);
  void abort(const std::string& id);  // ends within one step with kAbort; unknown ids are ignored
  Stats stats();
  bool healthy() const;  // false when its thread has died or steps keep failing
  // No new requests from now on. Returns when the live ones have ended or, after `seconds`, were aborted.
  void drain(double seconds);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quaver::llm
