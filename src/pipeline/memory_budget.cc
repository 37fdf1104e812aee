// Reads /proc/meminfo and the control groups.
#include "pipeline/memory_budget.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace quaver::pipeline {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxHostCache = int64_t{4} << 30;

// "max", an absent file and absurd values mean no limit.
int64_t number_in(const std::string& path, int64_t fallback) {
  std::ifstream file(path);
  double value = 0;
  return file >> value && value < 0x1p62 ? static_cast<int64_t>(value) : fallback;
}

int64_t meminfo_available() {
  std::ifstream file("/proc/meminfo");
  for (std::string key, unit; file >> key;) {
    int64_t kilobytes = 0;
    file >> kilobytes;
    std::getline(file, unit);
    if (key == "MemAvailable:") return kilobytes * 1024;
  }
  return kUnlimited;
}

int64_t left_of(const std::string& limit_file, const std::string& used_file) {
  int64_t limit = number_in(limit_file, kUnlimited);
  return limit == kUnlimited ? kUnlimited : std::max<int64_t>(0, limit - number_in(used_file, 0));
}

}  // namespace

int64_t available_host_memory() {
  const std::string base = "/sys/fs/cgroup/";
  return std::min({meminfo_available(), left_of(base + "memory.max", base + "memory.current"),
                   left_of(base + "memory/memory.limit_in_bytes", base + "memory/memory.usage_in_bytes")});
}

int64_t default_cache_bytes(int64_t wanted, int64_t available, bool on_host) {
  if (on_host) return std::min({wanted, available / 4, kMaxHostCache});
  return std::min(wanted, available / 100 * 85);
}

}  // namespace quaver::pipeline
