// Which instruction sets this processor and its operating system offer.
#pragma once

#include <string>

namespace quaver {

struct CpuFeatures {
  bool avx2 = false;         // with FMA and F16C
  bool avx512 = false;       // F, BW, DQ, VL
  bool avx512_vnni = false;  // with avx512
  bool avx512_bf16 = false;  // with avx512
  bool amx = false;          // tile, int8 and bf16; permission from the kernel is asked for on first use
};

// Detected once. `QUAVER_CPU` = scalar, avx2, avx512 or vnni lowers it, for tests and comparisons.
const CpuFeatures& cpu_features();

std::string to_string(const CpuFeatures& features);  // "avx2 avx512 vnni bf16"

}  // namespace quaver
