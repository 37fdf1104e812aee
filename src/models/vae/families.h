// What each family of autoencoders offers to the table.
#pragma once

#include <memory>

#include "models/vae/image_vae.h"

namespace quaver::models {

std::unique_ptr<ImageVae> load_autoencoder_kl(nn::WeightSource& source);

}  // namespace quaver::models
