#include "eval/speed.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <random>

#include "base/error.h"

namespace quaver::eval {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

// Arrival times of the tokens of requests that run together.
class Round {
 public:
  explicit Round(int64_t sequences) : open_(sequences) {}

  void take(const llm::Event& event) {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < event.tokens.size(); ++i) arrivals_.push_back({Clock::now(), event.request_id});
    if (event.error && !error_) error_ = event.error;
    if (event.finish != llm::FinishReason::kNone && --open_ == 0) done_.notify_all();
  }

  void wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return open_ == 0; });
    if (error_) throw *error_;
  }

  // When every sequence had its first token, and how many tokens came after that.
  std::pair<Clock::time_point, int64_t> all_started(int64_t sequences) const {
    std::vector<std::string> seen;
    for (size_t i = 0; i < arrivals_.size(); ++i) {
      if (std::find(seen.begin(), seen.end(), arrivals_[i].second) == seen.end())
        seen.push_back(arrivals_[i].second);
      if (static_cast<int64_t>(seen.size()) == sequences)
        return {arrivals_[i].first, static_cast<int64_t>(arrivals_.size() - i) - 1};
    }
    throw Error(ErrorKind::kInternal, "a sequence ended without a token");
  }

  Clock::time_point last() const { return arrivals_.back().first; }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  int64_t open_;
  std::vector<std::pair<Clock::time_point, std::string>> arrivals_;
  std::optional<Error> error_;
};

class Meter {
 public:
  Meter(pipeline::TextPipeline& model, const SpeedTest& test) : model_(model), test_(test) {
    for (int64_t s = 0; s < test.sequences; ++s) prefixes_.push_back(random_tokens(test.depth));
    if (test.depth > 0) run(prefixes_, 1);  // into the prefix cache
  }

  double tokens_per_second() {
    std::vector<std::vector<int32_t>> prompts = prefixes_;
    for (auto& prompt : prompts) {
      std::vector<int32_t> rest = random_tokens(std::max<int64_t>(1, test_.prompt));
      prompt.insert(prompt.end(), rest.begin(), rest.end());
    }
    Clock::time_point start = Clock::now();
    std::unique_ptr<Round> round = run(prompts, test_.generate + 1);
    auto [started, written] = round->all_started(test_.sequences);
    int64_t read = test_.sequences * test_.prompt;
    if (test_.generate == 0) return static_cast<double>(read) / seconds_between(start, started);
    if (test_.prompt > 0) return static_cast<double>(read + written) / seconds_between(start, round->last());
    return static_cast<double>(written) / seconds_between(started, round->last());
  }

 private:
  std::vector<int32_t> random_tokens(int64_t count) {
    std::vector<int32_t> tokens;
    auto vocabulary = static_cast<uint64_t>(model_.tokenizer().vocab_size());
    for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(random_() % vocabulary));
    return tokens;
  }

  std::unique_ptr<Round> run(const std::vector<std::vector<int32_t>>& prompts, int64_t tokens) {
    auto round = std::make_unique<Round>(static_cast<int64_t>(prompts.size()));
    size_t submitted = 0;
    for (const auto& prompt : prompts)
      model_.submit(
          {.id = cat("bench-", submitted++),
           .prompt = prompt,
           .sampling = {.temperature = 0, .max_tokens = static_cast<int32_t>(tokens), .ignore_eos = true}},
          [round = round.get()](const llm::Event& event) { round->take(event); });
    round->wait();
    return round;
  }

  pipeline::TextPipeline& model_;
  const SpeedTest& test_;
  std::mt19937_64 random_{42};
  std::vector<std::vector<int32_t>> prefixes_;
};

std::string readable(int64_t count, const char* unit, double step, const char* const* prefixes) {
  auto value = static_cast<double>(count);
  int power = 0;
  while (value >= step && power < 3) value /= step, ++power;
  char text[48];
  std::snprintf(text, sizeof text, "%.2f %s%s", value, prefixes[power], unit);
  return text;
}

std::string readable_size(int64_t bytes) {
  static const char* const kPrefixes[] = {"", "Ki", "Mi", "Gi"};
  return readable(bytes, "B", 1024, kPrefixes);
}

std::string readable_count(int64_t count) {
  static const char* const kPrefixes[] = {"", "K", "M", "B"};
  return readable(count, "", 1000, kPrefixes);
}

}  // namespace

std::string SpeedTest::name() const {
  std::string text = prompt > 0 ? cat("pp", prompt) : "";
  if (generate > 0) text += cat(text.empty() ? "" : "+", "tg", generate);
  if (depth > 0) text += cat(" @ d", depth);
  return sequences > 1 ? cat(text, " x", sequences) : text;
}

double SpeedResult::mean() const {
  double sum = 0;
  for (double value : tokens_per_second) sum += value;
  return sum / static_cast<double>(tokens_per_second.size());
}

double SpeedResult::deviation() const {
  if (tokens_per_second.size() < 2) return 0;
  double squares = 0, centre = mean();
  for (double value : tokens_per_second) squares += (value - centre) * (value - centre);
  return std::sqrt(squares / static_cast<double>(tokens_per_second.size() - 1));
}

SpeedResult measure_speed(pipeline::TextPipeline& model, const SpeedTest& test, int64_t repetitions) {
  require(test.longest() <= model.card().max_model_len, ErrorKind::kInvalidInput, test.name(), " needs ",
          test.longest(), " tokens in one sequence, the model takes ", model.card().max_model_len);
  Meter meter(model, test);
  meter.tokens_per_second();
  SpeedResult result{.test = test, .tokens_per_second = {}};
  for (int64_t i = 0; i < repetitions; ++i) result.tokens_per_second.push_back(meter.tokens_per_second());
  return result;
}

std::string speed_markdown(const pipeline::ModelCard& card, const SpeedTableOptions& options,
                           const std::vector<SpeedResult>& results) {
  std::string text =
      "| model | size | params | backend | threads | test | t/s |\n| --- | ---: | ---: | --- | ---: | ---: | "
      "---: |\n";
  for (const SpeedResult& result : results) {
    char speed[64];
    std::snprintf(speed, sizeof speed, "%.2f ± %.2f", result.mean(), result.deviation());
    text += cat("| ", options.model, " | ", readable_size(card.weight_bytes), " | ",
                readable_count(card.num_parameters), " | ", options.backend, " | ", options.threads, " | ",
                result.test.name(), " | ", speed, " |\n");
  }
  return text;
}

json speed_json(const pipeline::ModelCard& card, const SpeedTableOptions& options,
                const std::vector<SpeedResult>& results) {
  json rows = json::array();
  for (const SpeedResult& result : results)
    rows.push_back({{"model_filename", card.path},
                    {"model_size", card.weight_bytes},
                    {"model_n_params", card.num_parameters},
                    {"quantization", card.quantization},
                    {"backend", options.backend},
                    {"n_threads", options.threads},
                    {"test", result.test.name()},
                    {"n_prompt", result.test.prompt},
                    {"n_gen", result.test.generate},
                    {"n_depth", result.test.depth},
                    {"n_sequences", result.test.sequences},
                    {"avg_ts", result.mean()},
                    {"stddev_ts", result.deviation()},
                    {"samples_ts", result.tokens_per_second}});
  return rows;
}

}  // namespace quaver::eval
