// Reads /proc/meminfo and the control groups.
#include "pipeline/memory_budget.h"

#include <ATen/DeviceAccelerator.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

namespace quaver::pipeline {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxHostCache = int64_t{4} << 30;

// How one version of control groups spells it.
struct GroupFiles {
  const char *limit, *used, *file_keys[2];
};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current", {"inactive_file", "active_file"}};
constexpr GroupFiles kVersion1 = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};

// "max", an absent file and absurd values mean no limit.
int64_t number_in(const fs::path& path, int64_t fallback) {
  std::ifstream file(path);
  double value = 0;
  return file >> value && value < 0x1p62 ? static_cast<int64_t>(value) : fallback;
}

// Of lines "key number" the sum of those with one of two keys.
int64_t sum_of(const fs::path& path, const char* const (&keys)[2]) {
  std::ifstream file(path);
  int64_t sum = 0;
  std::string key;
  for (int64_t value = 0; file >> key >> value;)
    if (key == keys[0] || key == keys[1]) sum += value;
  return sum;
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

int64_t left_in(const fs::path& group, const GroupFiles& files) {
  const int64_t limit = number_in(group / files.limit, kUnlimited);
  if (limit == kUnlimited) return kUnlimited;
  const int64_t held = number_in(group / files.used, 0) - sum_of(group / "memory.stat", files.file_keys);
  return std::max<int64_t>(0, limit - std::max<int64_t>(0, held));
}

// A group seen from within a container may be called otherwise than it is mounted: the mount itself always
// counts.
int64_t left_above(const fs::path& mount, fs::path group, const GroupFiles& files) {
  int64_t least = left_in(mount, files);
  for (; group.has_relative_path(); group = group.parent_path())
    least = std::min(least, left_in(mount / group.relative_path(), files));
  return least;
}

}  // namespace

int64_t control_group_memory(const fs::path& root, const std::string& membership) {
  int64_t least = std::min(left_in(root, kVersion2), left_in(root / "memory", kVersion1));
  std::istringstream lines(membership);
  for (std::string number, controllers, group; std::getline(lines, number, ':') &&
                                               std::getline(lines, controllers, ':') &&
                                               std::getline(lines, group);) {
    if (group.find("..") != std::string::npos) continue;  // outside of what is mounted here
    if (controllers.empty()) least = std::min(least, left_above(root, group, kVersion2));
    if (controllers == "memory") least = std::min(least, left_above(root / "memory", group, kVersion1));
  }
  return least;
}

int64_t available_host_memory() {
  std::ifstream file("/proc/self/cgroup");
  const std::string membership{std::istreambuf_iterator<char>(file), {}};
  return std::min(meminfo_available(), control_group_memory("/sys/fs/cgroup", membership));
}

int64_t free_memory(c10::Device device) {
  if (device.is_cpu()) return available_host_memory();
  const auto [free, total] = at::accelerator::getMemoryInfo(device.has_index() ? device.index() : 0);
  return static_cast<int64_t>(free);
}

int64_t default_cache_bytes(int64_t wanted, int64_t available, bool on_host) {
  if (on_host) return std::min({wanted, available / 4, kMaxHostCache});
  return std::min(wanted, available / 100 * 85);
}

}  // namespace quaver::pipeline
