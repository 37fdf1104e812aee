#include "apps/ranks.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "apps/model_kind.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "nn/device.h"

namespace quaver::apps {
namespace {

// What torchrun and its like say to a process.
struct RankEnvironment {
  int64_t rank = 0, world = 1, local_rank = 0, local_world = 1;
  std::string leader = "127.0.0.1";
  uint16_t port = 0;
  bool store_is_served = false;  // by torchrun itself
  std::string attempt;           // a restarted group has the same store

  bool on_one_host() const {
    return local_world == world || leader == "localhost" || leader.starts_with("127.");
  }
};

int64_t variable(const char* name) {
  const std::optional<int64_t> value = env_int(name);
  require(value.has_value(), ErrorKind::kInvalidInput, "RANK and WORLD_SIZE are set, but ", name, " is not");
  return *value;
}

// Nothing where no launcher started this process.
std::optional<RankEnvironment> from_launcher() {
  if (!env_int("RANK") || !env_int("WORLD_SIZE")) return {};
  RankEnvironment out{.rank = variable("RANK"), .world = variable("WORLD_SIZE")};
  if (out.world == 1) return out;
  out.local_rank = env_int("LOCAL_RANK").value_or(0);
  out.local_world = env_int("LOCAL_WORLD_SIZE").value_or(1);
  const int64_t port = variable("MASTER_PORT");
  require(out.rank >= 0 && out.rank < out.world && out.local_rank >= 0 && out.local_world >= 1 && port > 0 &&
              port < 65536,
          ErrorKind::kInvalidInput, "RANK ", out.rank, ", WORLD_SIZE ", out.world, ", LOCAL_RANK ",
          out.local_rank, ", LOCAL_WORLD_SIZE ", out.local_world, " and MASTER_PORT ", port,
          " don't make a world of ranks");
  out.port = static_cast<uint16_t>(port);
  if (const auto leader = env_string("MASTER_ADDR")) out.leader = *leader;
  out.store_is_served = env_string("TORCHELASTIC_USE_AGENT_STORE") == "True";
  out.attempt = env_string("TORCHELASTIC_RESTART_COUNT").value_or("0");
  return out;
}

std::vector<Environment> environments_of_others(int64_t world, uint16_t port) {
  std::vector<Environment> all;
  for (int64_t rank = 1; rank < world; ++rank) {
    Environment one = {{"RANK", cat(rank)},
                       {"LOCAL_RANK", cat(rank)},
                       {"WORLD_SIZE", cat(world)},
                       {"LOCAL_WORLD_SIZE", cat(world)},
                       {"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", cat(port)},
                       {"TORCHELASTIC_USE_AGENT_STORE", "False"}};
    // Rank 0 says all that is to be said.
    if (!env_string("QUAVER_LOG_LEVEL")) one.emplace_back("QUAVER_LOG_LEVEL", "error");
    all.push_back(std::move(one));
  }
  return all;
}

// Ranks on one host share its processors.
void divide_threads(int64_t local_world) {
  const int share = std::max(1, static_cast<int>(std::thread::hardware_concurrency() / local_world));
  if (!env_int("QUAVER_NUM_THREADS")) set_global_num_threads(share);
  if (!env_int("OMP_NUM_THREADS")) at::set_num_threads(share);
}

std::string device_of_rank(const std::string& asked, int64_t local_rank) {
  require(!asked.starts_with("cuda:"), ErrorKind::kInvalidInput, "--device is ", asked,
          ", but several ranks need one each: --device cuda gives rank N of a host its GPU N");
  if (nn::parse_device(asked).is_cpu()) return "cpu";
  return cat("cuda:", local_rank);
}

}  // namespace

void add_rank_flags(CLI::App& app, RankFlags& flags) {
  const auto add = [&](const std::string& names, int64_t& value, const std::string& help) {
    return app.add_option(names, value, help)->capture_default_str()->group(kForPictures);
  };
  add(both_spellings("cfg-parallel-size"), flags.sizes.cfg,
      "processes (GPUs) that share the branches of true guidance, 1 or 2")
      ->check(CLI::Range(1, 2));
  add(both_spellings("tensor-parallel-size"), flags.sizes.tensor,
      "processes that share each layer of the transformer; each holds its part of the weights")
      ->check(CLI::PositiveNumber);
  add(both_spellings("ulysses-degree") + ",--usp", flags.sizes.ulysses,
      "processes that share a picture's tokens; each holds all weights of the transformer")
      ->check(CLI::PositiveNumber);
  add(both_spellings("rank-timeout"), flags.timeout_s,
      "seconds that processes which live wait for one another within a step")
      ->check(CLI::PositiveNumber);
}

Ranks::Ranks(const RankFlags& flags, const std::string& device) : device_(device) {
  const int64_t world = flags.sizes.world();
  const std::optional<RankEnvironment> given = from_launcher();
  require(!given || given->world == world, ErrorKind::kInvalidInput, "WORLD_SIZE is ",
          given ? given->world : 0, ", but --cfg-parallel-size ", flags.sizes.cfg,
          ", --tensor-parallel-size ", flags.sizes.tensor, " and --ulysses-degree ", flags.sizes.ulysses,
          " make ", world);
  if (world == 1) return;
  RankEnvironment place =
      given.value_or(RankEnvironment{.world = world, .local_world = world, .attempt = "0"});
  device_ = device_of_rank(device, place.local_rank);
  divide_threads(place.local_world);
  const bool serves = place.rank == 0 && !place.store_is_served;
  constexpr std::chrono::minutes kPatience{5};
  nn::RankStore store = serves ? nn::RankStore::serve(place.port, place.on_one_host())
                               : nn::RankStore::connect(place.leader, place.port, kPatience);
  if (!given) processes_ = std::make_unique<RankProcesses>(environments_of_others(world, store.port()));
  world_ =
      std::make_unique<nn::RankWorld>(store.with_prefix("quaver/" + place.attempt),
                                      nn::RankWorldOptions{.sizes = flags.sizes,
                                                           .rank = place.rank,
                                                           .device = nn::parse_device(device_),
                                                           .timeout = std::chrono::seconds(flags.timeout_s),
                                                           .leader = place.leader,
                                                           .local = place.on_one_host()});
  if (processes_) processes_->all_have_come();
  if (leads()) log_info(world, " processes share the transformer");
}

// The others hear that rank 0 lets go before it waits for their end.
Ranks::~Ranks() {
  world_.reset();
  processes_.reset();
}

void Ranks::on_loss(std::function<void()> action) {
  if (world_ && leads()) world_->on_loss(std::move(action));
}

int follow(const pipeline::ImagePipelineOptions& options) {
  pipeline::follow_image_model(options);
  return 0;
}

}  // namespace quaver::apps
