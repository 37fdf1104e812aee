// The table of autoencoders of pictures: one row each.
#include "models/vae/families.h"

#include <array>

namespace quaver::models {

std::span<const ImageVaeFamily> image_vae_families() {
  static constexpr std::array kImageVaes = {ImageVaeFamily{"AutoencoderKL", load_autoencoder_kl}};
  return kImageVaes;
}

}  // namespace quaver::models
