// How fast a text model reads prompts and writes answers, measured through its engine as a user meets it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "pipeline/pipeline.h"

namespace quaver::eval {

// One row of a table. Either `prompt` or `generate` may be 0; with both, the time is that of the two
// together.
struct SpeedTest {
  int64_t prompt = 0;     // tokens to read
  int64_t generate = 0;   // tokens to write after them
  int64_t depth = 0;      // tokens that are in the cache before
  int64_t sequences = 1;  // at the same time

  std::string name()
      const;  // as llama-bench names it: pp512, tg128 @ d1024, pp512+tg128; "x8" for 8 sequences
  int64_t longest() const { return depth + prompt + generate + 1; }  // tokens of one sequence
};

struct SpeedResult {
  SpeedTest test;
  std::vector<double> tokens_per_second;  // of each repetition, all sequences together
  double mean() const;
  double deviation() const;  // of the sample; 0 for fewer than two
};

// Runs the test once to warm up and then `repetitions` times, on tokens drawn at random. Reading ends with
// the first token's arrival; writing counts from there. Throws Error(kInvalidInput) when a sequence is longer
// than the model takes or than the cache holds, and what a request fails with.
SpeedResult measure_speed(pipeline::TextPipeline& model, const SpeedTest& test, int64_t repetitions);

struct SpeedTableOptions {
  std::string model, backend;
  int64_t threads = 1;
};

// Columns and numbers of llama-bench: model, size, params, backend, threads, test, t/s.
std::string speed_markdown(const pipeline::ModelCard& card, const SpeedTableOptions& options,
                           const std::vector<SpeedResult>& results);
json speed_json(const pipeline::ModelCard& card, const SpeedTableOptions& options,
                const std::vector<SpeedResult>& results);

}  // namespace quaver::eval
