// The rows that each family's file offers to the table.
#pragma once

#include "diffusion/family.h"

namespace quaver::diffusion {

const ImageFamily& flux_family();
const ImageFamily& ovis_image_family();

}  // namespace quaver::diffusion
