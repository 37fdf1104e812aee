// Picks the version of a kernel that this processor can run.
#pragma once

#include "base/cpu_features.h"

namespace quaver::kernels {

template <class F>
F pick_isa(const CpuFeatures& cpu, F scalar, F avx2, F avx512) {
  if (cpu.avx512) return avx512;
  return cpu.avx2 ? avx2 : scalar;
}

}  // namespace quaver::kernels
