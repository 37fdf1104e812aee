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

// The reverse: the name under which files carry this pre-tokenizer; nothing when it has none.
std::optional<std::string_view> gguf_pre_tokenizer_name(const json& spec, bool ignore_merges);

}  // namespace quaver::text
