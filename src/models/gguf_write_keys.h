// A model's config as a GGUF's metadata: the reverse of gguf_config.h.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/gguf_writer.h"
#include "models/gguf_architectures.h"
#include "models/llm/decoder_config.h"

namespace quaver::models {

// The architecture's keys, "general.architecture" first. Error(kUnsupported) beginning with `what` names what
// the architecture has no key for, so that the file would compute something else: layer windows, activations,
// scalings of rotations or scores, layers without experts between those with.
void add_gguf_config(const GgufArchitecture& architecture, const DecoderConfig& config, std::string_view what,
                     GgufMetadata& metadata);

// One divisor for each rotation frequency where the config scales by parts; empty elsewhere. It becomes the
// tensor kGgufRopeFactors.
std::vector<float> gguf_rope_factors(const DecoderConfig& config);

}  // namespace quaver::models
