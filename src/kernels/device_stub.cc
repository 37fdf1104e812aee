// Stands in for device.cu in builds without CUDA.
#include "kernels/device.h"

namespace quaver::kernels {

bool device_kernels_built() { return false; }

}  // namespace quaver::kernels
