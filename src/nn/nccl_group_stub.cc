// Stands in for nccl_group.cc in builds without NCCL.
#include "base/error.h"
#include "nn/c10d_group.h"

namespace quaver::nn {

std::unique_ptr<RankGroup> make_nccl_group(const RankStore&, const RankGroupOptions&) {
  fail(ErrorKind::kUnsupported,
       "this build of quaver has no NCCL, which ranks on GPUs need: "
       "build with QUAVER_CUDA where torch is beside pip's nvidia-nccl");
}

}  // namespace quaver::nn
