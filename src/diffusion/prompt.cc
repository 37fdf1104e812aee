#include "diffusion/prompt.h"

#include <ATen/ops/isfinite.h>

#include "base/error.h"

namespace quaver::diffusion {

void check_finite(const at::Tensor& x, std::string_view component, std::string_view where) {
  if (at::isfinite(x).all().item<bool>()) return;
  throw Error(ErrorKind::kNonFinite,
              cat(component, " gave values that are not finite ", where,
                  "; its weights may be damaged, or too coarse a dtype was asked for"),
              std::string(component));
}

}  // namespace quaver::diffusion
