// Pictures made larger or smaller, sample for sample as Pillow's Image.resize makes them up to 12.0, on which
// the processors of published models are built.
#pragma once

#include "media/image.h"

namespace quaver {

// The numbers are those of `resample` in preprocessor configs.
enum class Resample { kNearest = 0, kLanczos = 1, kBilinear = 2, kBicubic = 3, kBox = 4 };

// All but nearest widen the filter by the factor of reduction, so that every source pixel counts; bicubic has
// a = -0.5, Lanczos three lobes. Columns are resampled first and rounded to 8 bits, then rows, with weights
// of 22 fractional bits. Throws Error(kInvalidInput) when a side is below 1 or the filter is none of these.
// Precondition: the picture has pixels.
Image resize(const Image& image, int width, int height, Resample filter);
GrayImage resize(const GrayImage& image, int width, int height, Resample filter);

}  // namespace quaver
