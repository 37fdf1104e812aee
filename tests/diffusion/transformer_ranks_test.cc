// A transformer whose ranks are threads gives what one rank gives, whatever they divide; ranks that fail are
// named and the others do not wait (F123, F133).
#include "diffusion/transformer_ranks.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <new>
#include <thread>
#include <utility>

#include "checkpoint/checkpoint.h"

namespace quaver::diffusion {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kTransformers = std::string(QUAVER_TEST_DATA) + "/golden/diffusion/";

std::unique_ptr<models::Dit> tiny_transformer(const std::string& name, const nn::RankWorld* world = nullptr) {
  const std::unique_ptr<Checkpoint> files = open_hugging_face_folder(kTransformers + name);
  nn::LoadOptions options;
  if (world) options.tensor_ranks = world->tensor_ranks(), options.sequence_ranks = world->sequence_ranks();
  nn::WeightSource source(*files, options);
  return models::load_dit(source);
}

at::Tensor drawn_from(const std::vector<int64_t>& shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed));
}

// 5 x 3 tokens and 7 of text: neither divides among 2.
models::DitInput input_of(const models::Dit& dit, int64_t batch, uint64_t seed = 1, double sigma = 0.75) {
  const models::DitInfo& info = dit.info();
  models::DitInput input{.latents = drawn_from({batch, 15, info.channels}, seed),
                         .text = drawn_from({batch, 7, info.text_width}, seed + 1),
                         .sigma = at::full({batch}, sigma),
                         .rope = dit.rope(7, 5, 3)};
  if (info.pooled_width > 0) input.pooled = drawn_from({batch, info.pooled_width}, seed + 2);
  if (info.takes_guidance) input.guidance = at::full({batch}, 3.5);
  return input;
}

// Fails where a pass begins.
class FailingDit : public models::Dit {
 public:
  explicit FailingDit(const models::DitInfo& info) : Dit(nn::LoadOptions{}), info_(info) {}
  const models::DitInfo& info() const override { return info_; }
  std::string block_name(int64_t) const override { return {}; }
  nn::RopeAngles rope(int64_t, int64_t, int64_t) const override { return {}; }
  std::unique_ptr<models::DitBlock> make_block(int64_t, nn::WeightSource&) const override { return {}; }
  std::vector<models::NamedLinear> outer_linears() override { return {}; }

 private:
  at::Tensor condition(const models::DitInput&) const override { throw std::bad_alloc(); }
  models::DitState embed_tokens(const at::Tensor&, const at::Tensor&) const override { return {}; }
  at::Tensor project_out(const at::Tensor&, const at::Tensor&) const override { return {}; }

  const models::DitInfo info_;
};

void follow_failing(nn::RankWorld& world) {
  const FailingDit dit(tiny_transformer("flux_guided")->info());
  follow_transformer(world, dit, {});
}

struct Setting {
  nn::RankSizes sizes;
  std::string transformer = "flux_guided";
  StepCacheSettings cache;
  std::chrono::seconds timeout{10};
};

// Runs `leader` as rank 0 beside threads that follow it; `ends` are what those threw.
std::vector<std::string> on_world(
    const Setting& setting,
    const std::function<void(TransformerRanks&, const models::Dit&, nn::RankWorld&)>& leader,
    const std::function<void(nn::RankWorld&)>& instead = {}) {
  const nn::RankStore store = nn::RankStore::of_threads();
  const auto join = [&](int64_t rank) {
    return std::make_unique<nn::RankWorld>(
        store, nn::RankWorldOptions{.sizes = setting.sizes, .rank = rank, .timeout = setting.timeout});
  };
  std::vector<std::string> ends(static_cast<size_t>(setting.sizes.world()));
  std::vector<std::jthread> threads;
  for (int64_t rank = 1; rank < setting.sizes.world(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        const auto world = join(rank);
        if (instead) return instead(*world);
        const auto dit = tiny_transformer(setting.transformer, world.get());
        follow_transformer(*world, *dit, setting.cache);
      } catch (const std::exception& e) {
        ends[static_cast<size_t>(rank)] = e.what();
      }
    });
  {
    c10::InferenceMode no_gradients;
    const auto world = join(0);
    const auto dit = tiny_transformer(setting.transformer, world.get());
    TransformerRanks ranks(*world, *dit);
    leader(ranks, *dit, *world);
  }
  threads.clear();  // joins
  return ends;
}

// The largest difference, in terms of the largest value: sums of a few hundred products, in another order.
testing::AssertionResult like(const at::Tensor& got, const at::Tensor& want) {
  const double error = ((got - want).abs().max() / want.abs().max()).item<double>();
  if (error <= 0x1p-24 * 512) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "differs by " << error << " of the largest value";
}

void expect_like_one(const Setting& setting) {
  const auto whole = tiny_transformer(setting.transformer);
  const auto ends = on_world(setting, [&](TransformerRanks& ranks, const models::Dit& dit, nn::RankWorld&) {
    StepCache alone(setting.cache), together(setting.cache);
    models::DitInput input = input_of(dit, 2);
    for (int step = 0; step < 4; ++step) {
      input.latents = input.latents + (step == 2 ? 0.5 : 0.001) * drawn_from({2, 15, dit.info().channels}, 9);
      EXPECT_TRUE(like(ranks.forward(together, input), alone.forward(*whole, input))) << "step " << step;
    }
    EXPECT_EQ(together.skipped(), alone.skipped());
    if (setting.cache.kind != StepCacheSettings::Kind::kNone) {
      EXPECT_GT(alone.skipped(), 0);
    }
  });
  for (const std::string& end : ends) EXPECT_EQ(end, "");
}

TEST(TransformerRanks, BranchesOfGuidanceAreDividedAndTheResultIsWhole) {
  for (const char* model : {"flux_guided", "flux_unguided", "ovis_image"}) {
    SCOPED_TRACE(model);
    expect_like_one({.sizes = {.cfg = 2}, .transformer = model});
  }
}

TEST(TransformerRanks, TheWaysToDivideGoTogether) {
  for (const nn::RankSizes& sizes :
       {nn::RankSizes{.cfg = 2, .tensor = 2}, {.cfg = 2, .ulysses = 2}, {.tensor = 3}, {.ulysses = 3}}) {
    SCOPED_TRACE(cat(sizes.cfg, " x ", sizes.tensor, " x ", sizes.ulysses));
    expect_like_one({.sizes = sizes});
  }
}

TEST(TransformerRanks, StepCachesDecideAlikeOnAllRanks) {
  const std::pair<const char*, nn::RankSizes> cases[] = {{"first-block:0.05", {.cfg = 2}},
                                                         {"first-block:0.05", {.tensor = 2}},
                                                         {"teacache:0.05", {.cfg = 2, .ulysses = 2}}};
  for (const auto& [name, sizes] : cases) {
    SCOPED_TRACE(cat(name, ": ", sizes.cfg, " x ", sizes.tensor, " x ", sizes.ulysses));
    expect_like_one({.sizes = sizes, .cache = parse_step_cache(name)});
  }
}

TEST(TransformerRanks, OneBranchLeavesTheOtherRanksIdle) {
  for (const char* cache_name : {"none", "first-block:0.05"}) {
    const StepCacheSettings settings = parse_step_cache(cache_name);
    const auto whole = tiny_transformer("flux_guided");
    on_world({.sizes = {.cfg = 2, .ulysses = 2}, .cache = settings},
             [&](TransformerRanks& ranks, const models::Dit& dit, nn::RankWorld&) {
               for (const int64_t batch : {1, 2, 1, 5}) {
                 StepCache alone(settings), together(settings);
                 for (int step = 0; step < 2; ++step) {
                   const models::DitInput input = input_of(dit, batch);
                   EXPECT_TRUE(like(ranks.forward(together, input), alone.forward(*whole, input))) << batch;
                 }
               }
             });
  }
}

// Two jobs whose steps alternate: the others have the state of one run at a time, and none waits for another.
TEST(TransformerRanks, JobsMayTakeTurns) {
  const StepCacheSettings settings = parse_step_cache("first-block:0.5");
  on_world({.sizes = {.cfg = 2}, .cache = settings},
           [&](TransformerRanks& ranks, const models::Dit& dit, nn::RankWorld&) {
             StepCache a(settings), b(settings);
             for (int step = 0; step < 3; ++step)
               for (StepCache* cache : {&a, &b})
                 EXPECT_TRUE(like(ranks.forward(*cache, input_of(dit, 2)), dit.forward(input_of(dit, 2))));
             EXPECT_EQ(a.skipped(), 0);  // or the ranks' states would differ
           });
}

// F133: what fails on one rank alone ends the request, and where ranks meet at the end only, the next one
// runs.
TEST(TransformerRanks, AFailureOfOneRankAloneIsNamedAndTheOthersGoOn) {
  const auto ends = on_world(
      {.sizes = {.cfg = 2}},
      [&](TransformerRanks& ranks, const models::Dit& dit, nn::RankWorld& world) {
        for (int i = 0; i < 2; ++i) {
          StepCache cache{StepCacheSettings{}};
          try {
            ranks.forward(cache, input_of(dit, 2));
            ADD_FAILURE() << "nothing was thrown";
          } catch (const Error& error) {
            EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory);
            EXPECT_THAT(error.what(), StartsWith("rank 1: "));
          }
          EXPECT_TRUE(like(ranks.forward(cache, input_of(dit, 1)), dit.forward(input_of(dit, 1))));
        }
        EXPECT_EQ(world.leader().loss(), std::nullopt);
      },
      follow_failing);
  EXPECT_EQ(ends[1], "");
}

// F133: where they meet within a pass, all end at once.
TEST(TransformerRanks, AFailureWithinAPassEndsTheWorld) {
  const auto start = std::chrono::steady_clock::now();
  const auto ends = on_world(
      {.sizes = {.ulysses = 2}},
      [&](TransformerRanks& ranks, const models::Dit& dit, nn::RankWorld&) {
        for (int i = 0; i < 2; ++i) {
          StepCache cache{StepCacheSettings{}};
          try {
            ranks.forward(cache, input_of(dit, 2));
            ADD_FAILURE() << "nothing was thrown";
          } catch (const Error& error) {
            EXPECT_EQ(error.kind(), ErrorKind::kInternal);
            EXPECT_THAT(error.what(), HasSubstr("ranks can't go on: rank 1: "));
          }
        }
        EXPECT_TRUE(ranks.lost());
      },
      follow_failing);
  EXPECT_NE(ends[1], "");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(TransformerRanks, ARankThatEndsIsNoticedWithoutAPass) {
  std::atomic<bool> told{false};
  std::atomic<int> waiting{1};
  on_world(
      {.sizes = {.cfg = 2}},
      [&](TransformerRanks& ranks, const models::Dit& dit, nn::RankWorld& world) {
        world.on_loss([&] { told = true; });
        waiting = 0;
        waiting.notify_all();
        EXPECT_EQ(world.leader().loss(std::chrono::seconds(10)), "rank 1 has ended");
        EXPECT_TRUE(ranks.lost());
        StepCache cache{StepCacheSettings{}};
        EXPECT_THROW(ranks.forward(cache, input_of(dit, 2)), Error);
      },
      [&](nn::RankWorld& world) {
        world.follower().ready();
        waiting.wait(1);
      });
  EXPECT_TRUE(told);
}

TEST(TransformerRanks, ARankThatCannotLoadItsPartIsHeard) {
  EXPECT_THAT(
      [] {
        on_world(
            {.sizes = {.cfg = 2}}, [](auto&...) {},
            [](nn::RankWorld& world) { world.follower().give_up("no such tensor"); });
      },
      testing::ThrowsMessage<Error>("rank 1: no such tensor"));
}

// A rank that stays away from a collective is the watchdog's (F123).
TEST(TransformerRanks, ARankThatBranchesOffIsGivenUpInTime) {
  std::atomic<int> waiting{1};
  on_world(
      {.sizes = {.cfg = 2}, .timeout = std::chrono::seconds(1)},
      [&](TransformerRanks& ranks, const models::Dit& dit, nn::RankWorld&) {
        StepCache cache{StepCacheSettings{}};
        EXPECT_THAT([&] { ranks.forward(cache, input_of(dit, 2)); },
                    testing::ThrowsMessage<Error>(HasSubstr("lost one another")));
        waiting = 0;
        waiting.notify_all();
      },
      [&](nn::RankWorld& world) {
        world.follower().ready();
        waiting.wait(1);
      });
}

}  // namespace
}  // namespace quaver::diffusion
