// Adds up what steps report.
#include "llm/stats.h"

#include <algorithm>
#include <utility>

namespace quaver::llm {
namespace {

void append(std::vector<double>& all, const std::vector<double>& more) {
  size_t room = kMaxObservations - std::min(kMaxObservations, all.size());
  all.insert(all.end(), more.begin(),
             more.begin() + static_cast<std::ptrdiff_t>(std::min(room, more.size())));
}

}  // namespace

void StatsBoard::add(const Stats& step) {
  std::lock_guard lock(mutex_);
  for (auto counter :
       {&Stats::finished_stop, &Stats::finished_length, &Stats::finished_abort, &Stats::finished_error,
        &Stats::prompt_tokens, &Stats::generation_tokens, &Stats::cached_prompt_tokens, &Stats::non_finite})
    stats_.*counter += step.*counter;
  for (auto gauge : {&Stats::running, &Stats::waiting, &Stats::preemptions}) stats_.*gauge = step.*gauge;
  stats_.kv_cache_usage = step.kv_cache_usage;
  for (auto series : {&Stats::time_to_first_token_s, &Stats::inter_token_s, &Stats::e2e_s})
    append(stats_.*series, step.*series);
}

Stats StatsBoard::take() {
  std::lock_guard lock(mutex_);
  Stats result = stats_;
  for (auto series : {&Stats::time_to_first_token_s, &Stats::inter_token_s, &Stats::e2e_s})
    (stats_.*series).clear();
  return result;
}

}  // namespace quaver::llm
