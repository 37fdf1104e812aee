// Pictures as the autoencoder sees them, and back.
#pragma once

#include <ATen/core/Tensor.h>

#include "media/image.h"

namespace quaver::diffusion {

at::Tensor pixels_of(const Image& image);   // -> float32 [1, 3, height, width] in -1..1
at::Tensor mask_of(const GrayImage& mask);  // -> float32 [1, 1, height, width], 1 where it is white, else 0
// Clamped and rounded to 8 bits. Precondition: finite.
Image image_of(const at::Tensor& pixels);  // [3, height, width], about -1..1
// True when every pixel is the same.
bool is_constant(const Image& image);

}  // namespace quaver::diffusion
