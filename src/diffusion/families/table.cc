// The table of families: one row each.
#include <algorithm>
#include <array>

#include "base/error.h"
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

const ImageFamily& image_family_of(const DiffusersFolder& folder) {
  if (const ImageFamily* family = find_image_family(folder.class_name())) return *family;
  std::string known;
  for (const ImageFamily& family : image_families())
    for (const std::string_view name : family.class_names) known += cat(known.empty() ? "" : ", ", name);
  throw Error(ErrorKind::kUnsupported,
              cat((folder.path() / "model_index.json").string(), ": key '_class_name' is '",
                  folder.class_name(), "', expected one of: ", known),
              "_class_name");
}

}  // namespace quaver::diffusion
