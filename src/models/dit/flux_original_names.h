// FLUX.1's transformer under the names of its makers' own files, which GGUF files keep.
#pragma once

#include <memory>

#include "checkpoint/checkpoint.h"

namespace quaver::models {

// Shows such a checkpoint under diffusers' names; one that has these already stays as it is. Names may begin
// with "model.diffusion_model.", and what does not is then left out: other parts of a whole model.
// Error(kUnsupported) naming a tensor that has no place, Error(kBadFile) for a GGUF of another architecture
// or a fused layer whose rows can't be those of its parts.
std::unique_ptr<Checkpoint> present_flux(std::unique_ptr<Checkpoint> stored);

}  // namespace quaver::models
