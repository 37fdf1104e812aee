// Stands in for device_integer.cu in builds without CUDA.
#include "kernels/device_refusal.h"
#include "kernels/linear/device_integer.h"

namespace quaver::kernels {

void expand_integer(const DeviceIntegerWeight&, DeviceFloat, void*, void*) { refuse_device(); }
bool multiplies_directly(const DeviceIntegerWeight&, int64_t) { return false; }
void multiply_integer(const DeviceIntegerWeight&, const DeviceRows&, void*) { refuse_device(); }

}  // namespace quaver::kernels
