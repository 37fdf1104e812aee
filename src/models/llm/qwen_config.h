// What the Qwen families' configs share.
#pragma once

#include "models/llm/decoder_config.h"

namespace quaver::models {

// Common keys and rope.
DecoderConfig read_qwen(const ConfigReader& config, const DecoderDefaults& defaults);

// The window in force: 0 unless "use_sliding_window" is on.
int64_t read_qwen_window(const ConfigReader& config);

// Layers from "max_window_layers" on slide, unless "layer_types" says which.
void read_qwen_windows(const ConfigReader& config, DecoderConfig& decoder);

// All of Qwen3's, which serves as a text encoder too.
DecoderConfig read_qwen3(const ConfigReader& config);

}  // namespace quaver::models
