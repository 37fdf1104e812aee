// Stands in for device_gelu.cu in builds without CUDA.
#include "kernels/activation/device_gelu.h"
#include "kernels/device_refusal.h"

namespace quaver::kernels {

bool device_gelu_beside_takes(int64_t, int64_t) { return false; }
void gelu_beside_on_device(const DeviceGeluBeside&, void*) { refuse_device(); }

}  // namespace quaver::kernels
