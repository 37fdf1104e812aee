// The table of families: one row each.
#include <algorithm>
#include <array>

#include "diffusion/families/rows.h"
#include "diffusion/family.h"

namespace quaver::diffusion {

std::span<const ImageFamily> image_families() {
  static const std::array kFamilies = {flux_family(), ovis_image_family()};
  return kFamilies;
}

const ImageFamily* find_image_family(std::string_view class_name) {
  for (const ImageFamily& family : image_families())
    if (std::ranges::find(family.class_names, class_name) != family.class_names.end()) return &family;
  return nullptr;
}

}  // namespace quaver::diffusion
