#include "diffusion/transformer_ranks.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "nn/low_rank.h"
#include "nn/step_error.h"

namespace quaver::diffusion {

namespace {

constexpr const char* kEnd = "end";  // in place of a pass: rank 0 lets go of this transformer

std::array<at::Tensor*, kInputTensors> tensors_of(models::DitInput& input) {
  return {&input.latents,  &input.text,     &input.pooled,  &input.sigma,
          &input.guidance, &input.rope.cos, &input.rope.sin};
}

// The batch entries of one rank of guidance.
models::DitInput entries(models::DitInput input, int64_t first, int64_t count) {
  for (at::Tensor* x : {&input.latents, &input.text, &input.pooled, &input.sigma, &input.guidance})
    if (x->defined()) *x = x->narrow(0, first, count);
  return input;
}

// A pass on one rank. Where ranks don't meet within it, one that fails still meets the others at its end, so
// that all can go on.
class Pass {
 public:
  Pass(nn::RankWorld& world, const models::Dit& dit, StepCache& cache, const models::DitInput& input)
      : world_(world),
        dit_(dit),
        cache_(cache),
        parts_(nn::even_split(input.latents.size(0), world.sizes().cfg)),
        all_take_part_(parts_.back() > 0) {
    const auto part = parts_.begin() + world.cfg_index();
    const int64_t first = std::accumulate(parts_.begin(), part, int64_t{0});
    if (*part > 0) input_ = entries(input, first, *part);
  }

  // The ranks' whole output; undefined where this one has nothing to do.
  at::Tensor run() {
    if (!input_) return {};
    const at::Tensor part = cache_.forward(dit_, *input_, [this](const at::Tensor& x) { return sum(x); });
    return joined(part);
  }

  // As run(); false when a rank failed, of which `error` says why where it is this one.
  bool run_together(at::Tensor& out, std::exception_ptr& error) {
    at::Tensor part;
    try {
      if (input_) part = cache_.forward(dit_, *input_);
    } catch (const std::exception&) {
      error = std::current_exception();
    }
    const at::Tensor failed =
        at::full({1}, error ? 1.0 : 0.0, at::TensorOptions().dtype(at::kFloat).device(world_.device()));
    const at::Tensor failures = world_.all().all_reduce(failed);
    world_.settle();  // within the time that ranks wait, which item() does not heed
    if (failures.item<double>() > 0) return false;
    if (input_) out = joined(part);
    return true;
  }

 private:
  at::Tensor sum(at::Tensor x) const {
    if (world_.tensor_ranks()) x = world_.tensor_ranks()->all_reduce(x);
    if (world_.sequence_ranks()) x = world_.sequence_ranks()->all_reduce(x);
    if (world_.cfg_ranks() && all_take_part_) x = world_.cfg_ranks()->all_reduce(x);
    world_.settle();
    return x;
  }

  at::Tensor joined(const at::Tensor& part) const {
    return world_.cfg_ranks() && all_take_part_ ? world_.cfg_ranks()->all_gather(part, 0, parts_) : part;
  }

  nn::RankWorld& world_;
  const models::Dit& dit_;
  StepCache& cache_;
  const std::vector<int64_t> parts_;
  const bool all_take_part_;
  std::optional<models::DitInput> input_;
};

// Whether ranks meet at the end of a pass alone.
bool apart_within(const nn::RankWorld& world, const StepCacheSettings& cache) {
  return !world.tensor_ranks() && !world.sequence_ranks() && cache.kind == StepCacheSettings::Kind::kNone;
}

std::string words_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
}

// Null for an undefined tensor, true for one that the others have.
json described(const at::Tensor& x, const at::Tensor& sent) {
  if (!x.defined()) return nullptr;
  if (x.is_same(sent)) return true;
  return {{"dtype", static_cast<int>(x.scalar_type())}, {"shape", x.sizes().vec()}};
}

// The inputs that a follower has, and those that come.
void receive(const nn::RankWorld& world, const json& tensors, models::DitInput& input) {
  const auto all = tensors_of(input);
  for (size_t i = 0; i < kInputTensors; ++i) {
    const json& what = tensors.at(i);
    if (what.is_null()) *all[i] = at::Tensor();
    if (!what.is_object()) continue;
    *all[i] = at::empty(what.at("shape").get<std::vector<int64_t>>(),
                        at::TensorOptions()
                            .dtype(static_cast<at::ScalarType>(what.at("dtype").get<int>()))
                            .device(world.device()));
    world.all().broadcast(*all[i], 0);
  }
}

}  // namespace

TransformerRanks::TransformerRanks(nn::RankWorld& world, const models::Dit& dit) : world_(world), dit_(dit) {
  world_.leader().await_ready();
}

TransformerRanks::~TransformerRanks() {
  try {
    world_.leader().tell(kEnd);
  } catch (const Error&) {  // one has gone, which is no news by now
  }
}

void TransformerRanks::send(StepCache& cache, const models::DitInput& input) {
  models::DitInput whole = input;
  const auto all = tensors_of(whole);
  json tensors = json::array();
  std::vector<size_t> fresh;
  for (size_t i = 0; i < kInputTensors; ++i) {
    tensors.push_back(described(*all[i], sent_[i]));
    if (tensors.back().is_object()) fresh.push_back(i);
    sent_[i] = *all[i];
  }
  const std::span<const double> scales = nn::low_rank_scales();
  const json pass = {{"run", cache.run()},
                     {"adapters", std::vector<double>(scales.begin(), scales.end())},
                     {"tensors", std::move(tensors)}};
  world_.leader().tell(pass.dump());
  for (const size_t i : fresh) {
    at::Tensor x = all[i]->to(world_.device());
    world_.all().broadcast(x, 0);
  }
}

at::Tensor TransformerRanks::forward(StepCache& cache, const models::DitInput& input) {
  std::lock_guard lock(mutex_);
  at::Tensor out;
  std::exception_ptr error;
  bool well = true;
  try {
    if (const auto loss = world_.leader().loss()) fail(ErrorKind::kUnavailable, *loss);
    send(cache, input);
    Pass pass(world_, dit_, cache, input);
    if (apart_within(world_, cache.settings()))
      well = pass.run_together(out, error);
    else
      out = pass.run();
    world_.settle();
  } catch (const std::exception&) {
    // Either another rank is lost, of which the leader hears in a moment, or the others wait for this one.
    constexpr std::chrono::seconds kMoment{1};
    const std::string own = words_of(std::current_exception());
    if (!world_.leader().loss(kMoment)) world_.leader().give_up(own);
    fail(ErrorKind::kInternal, "the transformer's ranks can't go on: ", *world_.leader().loss());
  }
  if (error) std::rethrow_exception(error);
  if (!well) throw world_.leader().complaint();
  return out;
}

void follow_transformer(nn::RankWorld& world, const models::Dit& dit, const StepCacheSettings& settings) {
  c10::InferenceMode no_gradients;
  models::DitInput input;
  std::optional<StepCache> cache;
  uint64_t run = 0;
  world.follower().ready();
  while (true) {
    const std::string message = world.follower().hear();
    if (message == kEnd) return;
    try {
      const json pass = json::parse(message);
      if (std::exchange(run, pass.at("run").get<uint64_t>()) != run || !cache) cache.emplace(settings);
      const nn::LowRankScope adapters(pass.at("adapters").get<std::vector<double>>());
      receive(world, pass.at("tensors"), input);
      Pass part(world, dit, *cache, input);
      at::Tensor out;
      std::exception_ptr error;
      if (!apart_within(world, settings))
        part.run();
      else if (!part.run_together(out, error) && error)
        world.follower().complain(nn::step_error(error));
      world.settle();
    } catch (const std::exception& e) {
      world.follower().give_up(e.what());
      throw;
    }
  }
}

}  // namespace quaver::diffusion
