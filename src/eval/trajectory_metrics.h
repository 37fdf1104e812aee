// How far one run's latents are from another's, step by step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <deque>
#include <vector>

#include "eval/difference.h"

namespace quaver::eval {

// Of the latents after one step; PSNR's peak is the reference's range, its largest number less its smallest.
// Error(kInvalidInput) naming both shapes where they differ. Precondition: float32 on the CPU, contiguous.
Difference latent_difference(const at::Tensor& reference, const at::Tensor& candidate);

// The latents of a reference's pictures, kept until the candidate's of the same step come, and no longer.
class TrajectoryPairs {
 public:
  explicit TrajectoryPairs(size_t pictures) : kept_(pictures), differences_(pictures) {}

  void keep(size_t picture, const at::Tensor& latents) { kept_.at(picture).push_back(latents.clone()); }
  // As latent_difference; also Error(kInvalidInput) when the reference had no such step.
  void compare(size_t picture, const at::Tensor& latents);
  // Of each picture, one per step.
  const std::vector<std::vector<Difference>>& differences() const { return differences_; }

 private:
  std::vector<std::deque<at::Tensor>> kept_;
  std::vector<std::vector<Difference>> differences_;
};

}  // namespace quaver::eval
