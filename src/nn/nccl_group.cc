// Groups of ranks over NCCL, in builds that have its header.
#ifndef USE_C10D_NCCL
#define USE_C10D_NCCL  // as torch's own files are compiled
#endif
#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "nn/c10d_backend_group.h"
#include "nn/c10d_group.h"
#include "nn/rank_store_impl.h"

namespace quaver::nn {

std::unique_ptr<RankGroup> make_nccl_group(const RankStore& store, const RankGroupOptions& options) {
  // c10d would end the process when a rank is lost; RankGroup's callers are told instead.
  setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", 0);
  try {
    auto settings = c10d::ProcessGroupNCCL::Options::create();
    settings->timeout = options.timeout;
    return make_backend_group(c10::make_intrusive<c10d::ProcessGroupNCCL>(
                                  store.with_prefix(options.name).impl().store,
                                  static_cast<int>(options.rank), static_cast<int>(options.size), settings),
                              options);
  } catch (const std::exception&) {
    fail_as_group(options.name, std::current_exception());
  }
}

}  // namespace quaver::nn
