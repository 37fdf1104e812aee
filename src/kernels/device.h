// What all kernels for CUDA devices share: the types of their values, and whether this build has them.
#pragma once

namespace quaver::kernels {

enum class DeviceFloat { kF32, kF16, kBF16 };

// False in builds without CUDA, where functions on device memory throw Error(kUnsupported).
bool device_kernels_built();

}  // namespace quaver::kernels
