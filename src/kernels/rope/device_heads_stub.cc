// Stands in for device_heads.cu in builds without CUDA.
#include "kernels/device_refusal.h"
#include "kernels/rope/device_heads.h"

namespace quaver::kernels {

bool turn_heads_takes(int64_t) { return false; }
void turn_heads_on_device(const DeviceHeads&, void*) { refuse_device(); }

}  // namespace quaver::kernels
