#include "pipeline/peak_memory.h"

#include <ATen/DeviceAccelerator.h>
#include <sys/resource.h>

namespace quaver::pipeline {

PeakMemory peak_memory(c10::Device device) {
  if (device.is_cpu()) {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const int64_t bytes = int64_t{usage.ru_maxrss} * 1024;
    return {.allocated = bytes, .reserved = bytes};
  }
  const auto stats =
      at::accelerator::getDeviceStats(device.has_index() ? device.index() : c10::DeviceIndex{0});
  constexpr size_t kAll = 0;  // small and large blocks together
  return {.allocated = stats.allocated_bytes[kAll].peak, .reserved = stats.reserved_bytes[kAll].peak};
}

}  // namespace quaver::pipeline
