// The JSON files of a Hugging Face folder, made from a GGUF's metadata.
#pragma once

#include "base/json.h"
#include "checkpoint/gguf.h"

namespace quaver::models {

json gguf_config_json(const GgufFile& file);             // config.json
json gguf_generation_config_json(const GgufFile& file);  // generation_config.json
json gguf_tokenizer_config_json(const GgufFile& file);   // tokenizer_config.json

}  // namespace quaver::models
