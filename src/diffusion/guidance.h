// How strongly a prompt pulls: which branches of the model a step runs, and what becomes of their results.
#pragma once

#include <ATen/core/Tensor.h>

namespace quaver::diffusion {

// Distilled guidance is a number that the model takes as an input; true guidance runs the model once more, on
// the negative prompt. Ho and Salimans, "Classifier-free diffusion guidance" (2022).
struct Guidance {
  double embedded = 0;  // what the model is told; read only by models that take it
  double scale = 1;     // above 1: away from the negative prompt, so much
  int branches() const { return scale > 1 ? 2 : 1; }
};

// negative + scale * (positive - negative), in float32.
at::Tensor guided(const Guidance& guidance, const at::Tensor& positive, const at::Tensor& negative);

}  // namespace quaver::diffusion
