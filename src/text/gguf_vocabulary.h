// A tokenizer.json told in the words of a GGUF's metadata: the reverse of tokenizer_from_gguf.
#pragma once

#include <cstdint>
#include <string_view>

#include "text/tokenizer.h"

namespace quaver {

// Byte-level BPE becomes "gpt2" under the name of its pre-tokenizer; BPE over visible spaces with byte
// fallback becomes "llama", with scores that order its merges. Exactly `size` tokens: ids without one get
// "[PAD<id>]", tokens from `size` on are left out, which is logged. Sets everything but the special ids,
// add_bos and add_eos. Error(kUnsupported) beginning with `what` names what GGUF has no word for.
GgufVocabulary gguf_vocabulary_of(std::string_view tokenizer_json, int32_t size, std::string_view what);

}  // namespace quaver
