// The table of diffusion transformers: one row each.
#include "models/dit/families.h"

#include <array>

#include "models/dit/flux_original_names.h"

namespace quaver::models {

std::span<const DitFamily> dit_families() {
  static constexpr std::array kFamilies = {
      DitFamily{"FluxTransformer2DModel", make_flux, present_flux},
      DitFamily{"OvisImageTransformer2DModel", make_ovis_image},
  };
  return kFamilies;
}

}  // namespace quaver::models
