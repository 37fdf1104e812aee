// Stands in for device_integer.cu in builds without CUDA.
#include "base/error.h"
#include "kernels/linear/device_integer.h"

namespace quaver::kernels {
namespace {
[[noreturn]] void refuse() {
  throw Error(ErrorKind::kUnsupported, "this build of quaver has no CUDA kernels");
}
}  // namespace

bool device_integer_built() { return false; }
void expand_integer(const DeviceIntegerWeight&, DeviceFloat, void*, void*) { refuse(); }
bool multiplies_directly(const DeviceIntegerWeight&, int64_t) { return false; }
void multiply_integer(const DeviceIntegerWeight&, const DeviceRows&, void*) { refuse(); }

}  // namespace quaver::kernels
