// Groups of ranks over Gloo.
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/env.h"
#include "nn/c10d_backend_group.h"
#include "nn/c10d_group.h"
#include "nn/rank_store_impl.h"

namespace quaver::nn {

namespace {

auto device_of(bool local) {
  using Gloo = c10d::ProcessGroupGloo;
  if (local) return Gloo::createDeviceForHostname("127.0.0.1");
  if (const auto interface = env_string("GLOO_SOCKET_IFNAME"))
    return Gloo::createDeviceForInterface(*interface);
  return Gloo::createDefaultDevice();
}

}  // namespace

std::unique_ptr<RankGroup> make_gloo_group(const RankStore& store, const RankGroupOptions& options) {
  try {
    auto settings = c10d::ProcessGroupGloo::Options::create(options.timeout);
    settings->devices.push_back(device_of(options.local));
    settings->threads = 1;  // collectives run one after the other
    return make_backend_group(c10::make_intrusive<c10d::ProcessGroupGloo>(
                                  store.with_prefix(options.name).impl().store,
                                  static_cast<int>(options.rank), static_cast<int>(options.size), settings),
                              options);
  } catch (const std::exception&) {
    fail_as_group(options.name, std::current_exception());
  }
}

}  // namespace quaver::nn
