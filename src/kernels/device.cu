#include "kernels/device.h"

namespace quaver::kernels {

bool device_kernels_built() { return true; }

}  // namespace quaver::kernels
