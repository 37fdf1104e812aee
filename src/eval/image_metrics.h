// How far one picture is from another of the same size.
#pragma once

#include "eval/difference.h"
#include "media/image.h"

namespace quaver::eval {

constexpr double kPixelPeak = 255;

// All three need two pictures of one size: Error(kInvalidInput) naming both sizes.

DifferenceSums pixel_sums(const Image& reference, const Image& candidate);

// The mean structural similarity over the three colours: Wang, Bovik, Sheikh and Simoncelli, "Image quality
// assessment: from error visibility to structural similarity" (2004), with a Gaussian window of 11 x 11 and
// deviation 1.5 that lies wholly inside the picture, K1 = 0.01, K2 = 0.03. 1 for identical pictures. Both
// sides must be at least 11: Error(kInvalidInput).
double structural_similarity(const Image& reference, const Image& candidate);

// Grey where both are alike; each colour `gain` times as far from it as the candidate is from the reference.
Image difference_picture(const Image& reference, const Image& candidate, double gain);

}  // namespace quaver::eval
