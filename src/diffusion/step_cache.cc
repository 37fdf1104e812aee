#include "diffusion/step_cache.h"

#include <ATen/TensorOperators.h>

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

double relative_change(const at::Tensor& now, const at::Tensor& before) {
  return ((now - before).abs().mean() / before.abs().mean()).item<double>();
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

bool StepCache::may_skip(const at::Tensor& signal) {
  const at::Tensor before = std::exchange(last_signal_, signal);
  if (!before.defined() || !added_.defined()) return false;
  const double change = relative_change(signal, before);
  if (settings_.kind == Kind::kFirstBlock) {
    if (change >= settings_.threshold) return false;
    last_signal_ = before;  // the next step is compared with the one whose work is reused
    return true;
  }
  accumulated_ += evaluated(settings_.polynomial, change);
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

at::Tensor StepCache::forward(const models::Dit& dit, const models::DitInput& input) {
  if (settings_.kind == Kind::kNone) return dit.forward(input);
  const models::DitContext context = dit.context(input);
  const models::DitState entered = dit.embed(input);
  const models::DitState first = dit.block(0).forward(entered, context);
  const bool skip =
      may_skip(settings_.kind == Kind::kFirstBlock ? first.image - entered.image
                                                   : dit.block(0).modulated_input(entered, context));
  return finish(dit, first, context, skip);
}

}  // namespace quaver::diffusion
