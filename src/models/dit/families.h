// What each family of diffusion transformers offers to the table.
#pragma once

#include <memory>

#include "models/dit/dit.h"

namespace quaver::models {

std::unique_ptr<Dit> make_flux(nn::WeightSource& source);
std::unique_ptr<Dit> make_ovis_image(nn::WeightSource& source);

}  // namespace quaver::models
