#include "diffusion/step_cache.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <atomic>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace quaver::diffusion {

namespace {

using Kind = StepCacheSettings::Kind;

struct CacheKind {
  std::string_view name;
  Kind kind;
  double threshold;  // unless given
};
// Thresholds that the methods' authors give for FLUX.1-dev at 28 steps.
constexpr CacheKind kKinds[] = {
    {"none", Kind::kNone, 0}, {"first-block", Kind::kFirstBlock, 0.08}, {"teacache", Kind::kTeaCache, 0.25}};

double evaluated(const std::vector<double>& polynomial, double x) {
  if (polynomial.empty()) return x;
  double sum = 0;
  for (const double factor : polynomial) sum = sum * x + factor;
  return std::abs(sum);
}

// By how much `now` differs from `before`, relative to that; nothing where somebody has no `before`.
std::optional<double> relative_change(const at::Tensor& now, const at::Tensor& before,
                                      const SumOverRanks& sum) {
  if (!before.defined() && !sum) return {};
  at::Tensor sums = at::zeros({3}, now.options().dtype(at::kFloat));  // change, size, those without `before`
  if (before.defined()) {
    sums[0] = (now - before).abs().sum(at::kFloat);
    sums[1] = before.abs().sum(at::kFloat);
  } else {
    sums[2] = 1;
  }
  if (sum) sums = sum(sums);
  sums = sums.cpu();
  if (sums[2].item<double>() > 0) return {};
  return sums[0].item<double>() / sums[1].item<double>();
}

}  // namespace

StepCacheSettings parse_step_cache(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  for (const CacheKind& row : kKinds) {
    if (row.name != name) continue;
    StepCacheSettings settings{.kind = row.kind, .threshold = row.threshold};
    if (colon == std::string_view::npos) return settings;
    const std::string_view number = text.substr(colon + 1);
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), settings.threshold);
    require(row.kind != Kind::kNone && error == std::errc() && end == number.data() + number.size() &&
                settings.threshold > 0 && settings.threshold < 1,
            ErrorKind::kInvalidInput, "a step cache's threshold is '", number,
            "', expected a number between 0 and 1");
    return settings;
  }
  fail(ErrorKind::kInvalidInput, "there is no step cache '", name,
       "', expected none, first-block or teacache, the latter two with or without ':threshold'");
}

StepCache::StepCache(StepCacheSettings settings) : settings_(std::move(settings)) {
  static std::atomic<uint64_t> runs{0};
  run_ = ++runs;
}

bool StepCache::may_skip(const at::Tensor& signal, const SumOverRanks& sum) {
  const at::Tensor before = std::exchange(last_signal_, signal);
  const std::optional<double> change = relative_change(signal, added_.defined() ? before : at::Tensor(), sum);
  if (!change) return false;
  if (settings_.kind == Kind::kFirstBlock) {
    if (*change >= settings_.threshold) return false;
    last_signal_ = before;  // the next step is compared with the one whose work is reused
    return true;
  }
  accumulated_ += evaluated(settings_.polynomial, *change);
  if (accumulated_ < settings_.threshold) return true;
  accumulated_ = 0;
  return false;
}

at::Tensor StepCache::finish(const models::Dit& dit, models::DitState state,
                             const models::DitContext& context, bool skip) {
  if (skip) {
    ++skipped_;
    state.image = state.image + added_;
    return dit.output(state, context);
  }
  const at::Tensor entered = state.image;
  for (int64_t i = 1; i < dit.info().num_blocks; ++i) state = dit.block(i).forward(state, context);
  added_ = state.image - entered;
  return dit.output(state, context);
}

at::Tensor StepCache::forward(const models::Dit& dit, const models::DitInput& input,
                              const SumOverRanks& sum) {
  if (settings_.kind == Kind::kNone) return dit.forward(input);
  const models::DitContext context = dit.context(input);
  const models::DitState entered = dit.embed(input);
  const models::DitState first = dit.block(0).forward(entered, context);
  const bool skip =
      may_skip(settings_.kind == Kind::kFirstBlock ? first.image - entered.image
                                                   : dit.block(0).modulated_input(entered, context),
               sum);
  return finish(dit, first, context, skip);
}

}  // namespace quaver::diffusion
