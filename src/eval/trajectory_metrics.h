// How far one run's latents are from another's, step by step.
#pragma once

#include <ATen/core/Tensor.h>

#include "eval/difference.h"

namespace quaver::eval {

// Of the latents after one step; PSNR's peak is the reference's range, its largest number less its smallest.
// Error(kInvalidInput) naming both shapes where they differ. Precondition: float32 on the CPU, contiguous.
Difference latent_difference(const at::Tensor& reference, const at::Tensor& candidate);

}  // namespace quaver::eval
