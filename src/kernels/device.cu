#include <cuda_runtime.h>

#include "kernels/device.h"

namespace quaver::kernels {

bool device_kernels_built() { return true; }

int device_capability(int device) {
  int major = 0, minor = 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess)
    return 0;
  return 10 * major + minor;
}

}  // namespace quaver::kernels
