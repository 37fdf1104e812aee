// Stands in for device_group_norm.cu in builds without CUDA.
#include "kernels/device_refusal.h"
#include "kernels/norm/device_group_norm.h"

namespace quaver::kernels {

bool device_group_norm_takes(int64_t) { return false; }
size_t group_norm_workspace_floats(const DeviceGroupNorm&) { refuse_device(); }
void group_norm_on_device(const DeviceGroupNorm&, void*) { refuse_device(); }

}  // namespace quaver::kernels
