// What a decoding step costs outside the model: scheduling, sampling, text, events bookkeeping.
#include <benchmark/benchmark.h>

#include <memory>
#include <random>
#include <vector>

#include "llm/sampler.h"
#include "llm/scheduler.h"
#include "llm/stop_strings.h"

namespace quaver::llm {
namespace {

constexpr int32_t kVocab = 49152;

// Schedules and completes decode steps of `range(0)` sequences with contexts that grow from 1000 tokens.
void schedule_step(benchmark::State& state) {
  auto count = static_cast<int32_t>(state.range(0));
  BlockManager blocks({.num_blocks = count * 4096});
  Scheduler scheduler({.max_num_seqs = count, .max_num_batched_tokens = 1 << 20, .max_model_len = 1 << 16},
                      blocks);
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (int32_t i = 0; i < count; ++i) {
    sequences.push_back(std::make_unique<Sequence>());
    sequences.back()->arrival = static_cast<uint64_t>(i) + 1;
    sequences.back()->tokens.assign(1000, i);
    sequences.back()->prompt_length = 1000;
    scheduler.add(*sequences.back());
  }
  for (auto _ : state) {
    Batch batch = scheduler.schedule();
    benchmark::DoNotOptimize(batch);
    scheduler.complete(batch);
    for (const ScheduledSequence& item : batch.items)
      if (item.sequence->num_pending() == 0) item.sequence->tokens.push_back(7);
  }
}
BENCHMARK(schedule_step)->Arg(1)->Arg(64)->Iterations(20000);

std::vector<float> logits() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> row(kVocab);
  for (float& value : row) value = normal(random);
  return row;
}

void pick(benchmark::State& state, const SamplingParams& params) {
  std::vector<float> row = logits();
  std::vector<int32_t> prompt(1000, 3);
  Sampler sampler({&params, prompt, {}, 1});
  for (auto _ : state) benchmark::DoNotOptimize(sampler.pick(row));
}

void pick_greedy(benchmark::State& state) { pick(state, {.temperature = 0}); }
void pick_top_p(benchmark::State& state) { pick(state, {.temperature = 0.7f, .top_p = 0.9f}); }
void pick_top_k(benchmark::State& state) { pick(state, {.temperature = 0.7f, .top_k = 40}); }
void pick_penalised(benchmark::State& state) {
  pick(state, {.temperature = 0.7f, .top_p = 0.9f, .repetition_penalty = 1.1f});
}
void pick_with_logprobs(benchmark::State& state) { pick(state, {.temperature = 0, .logprobs = 20}); }
BENCHMARK(pick_greedy);
BENCHMARK(pick_top_p);
BENCHMARK(pick_top_k);
BENCHMARK(pick_penalised);
BENCHMARK(pick_with_logprobs);

void match_stop_strings(benchmark::State& state) {
  StopStrings matcher({"\n\nUser:", "</s>", "Question:", "###"}, false);
  for (auto _ : state) benchmark::DoNotOptimize(matcher.push(" token"));
}
BENCHMARK(match_stop_strings);

}  // namespace
}  // namespace quaver::llm

BENCHMARK_MAIN();
