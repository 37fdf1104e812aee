// How each named pre-tokenizer of GGUF files cuts text.
#pragma once

#include <optional>
#include <string_view>

#include "base/json.h"

namespace quaver::text {

struct GgufPreTokenizer {
  json spec;                   // a pre-tokenizer object, for byte-level BPE
  bool ignore_merges = false;  // words that are tokens are taken whole
};

// From the value of tokenizer.ggml.pre; nothing when the name is unknown.
std::optional<GgufPreTokenizer> gguf_pre_tokenizer(std::string_view name);

}  // namespace quaver::text
