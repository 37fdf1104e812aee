#include "base/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/env.h"
#include "base/error.h"

namespace quaver {
namespace {

#if defined(__x86_64__)
// clang 14 does not know F16C in __builtin_cpu_supports.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

CpuFeatures detect() {
  CpuFeatures f;
#if defined(__x86_64__)
  __builtin_cpu_init();
  f.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  f.avx512 = f.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  f.avx512_vnni = f.avx512 && __builtin_cpu_supports("avx512vnni");
  f.avx512_bf16 = f.avx512 && __builtin_cpu_supports("avx512bf16");
#endif
  return f;
}

CpuFeatures lowered(CpuFeatures f, const std::string& level) {
  if (level == "vnni") return f;
  if (level == "avx512") return {.avx2 = f.avx2, .avx512 = f.avx512};
  if (level == "avx2") return {.avx2 = f.avx2};
  if (level == "scalar") return {};
  fail(ErrorKind::kInvalidInput, "QUAVER_CPU must be scalar, avx2, avx512 or vnni, got '", level, "'");
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = [] {
    auto level = env_string("QUAVER_CPU");
    return level ? lowered(detect(), *level) : detect();
  }();
  return features;
}

std::string to_string(const CpuFeatures& f) {
  std::string text;
  auto add = [&](bool have, const char* name) {
    if (have) text += text.empty() ? name : cat(" ", name);
  };
  add(f.avx2, "avx2");
  add(f.avx512, "avx512");
  add(f.avx512_vnni, "vnni");
  add(f.avx512_bf16, "bf16");
  add(f.amx, "amx");
  return text.empty() ? "scalar" : text;
}

}  // namespace quaver
