#include "kernels/linear/kernel.h"
#include "numerics/scale_value.h"

namespace quaver::kernels {

float ScaleView::at(int64_t index) const {
  float value = scale_value(codec, codes + index * scale_codec_info(codec).bytes);
  if (super == nullptr) return value;
  return divides ? value / super[index / share] : value * super[index / share];
}

}  // namespace quaver::kernels
