// What the stubs of kernels for CUDA devices do.
#pragma once

#include "base/error.h"

namespace quaver::kernels {

[[noreturn]] inline void refuse_device() {
  throw Error(ErrorKind::kUnsupported, "this build of quaver has no CUDA kernels");
}

}  // namespace quaver::kernels
