// Stands in for device_modulation.cu in builds without CUDA.
#include "kernels/device_refusal.h"
#include "kernels/norm/device_modulation.h"

namespace quaver::kernels {

bool device_modulation_takes(int64_t) { return false; }
void modulated_norm_on_device(const DeviceModulatedNorm&, void*) { refuse_device(); }
void gated_sum_on_device(const DeviceGatedSum&, void*) { refuse_device(); }

}  // namespace quaver::kernels
