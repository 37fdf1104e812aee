// A model's tokenizer as a GGUF's metadata: the reverse of gguf_special_tokens.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf_writer.h"
#include "text/tokenizer.h"

namespace quaver::models {

// The vocabulary of `folder`'s tokenizer with one token for each of the embedding's `rows`, and what begins
// and ends a text. Special tokens are those of tokenizer_config.json, else those of the configs by id.
// Error(kUnsupported) where a GGUF has no word for the tokenizer, or one that would cut texts differently.
struct WrittenVocabulary {
  GgufVocabulary vocabulary;
  std::vector<int32_t> more_ends;  // of a reply, beside the vocabulary's eos
  std::optional<std::string> chat_template;
};
WrittenVocabulary gguf_vocabulary_for(const Checkpoint& checkpoint, const std::string& folder, int64_t rows);

void add_gguf_vocabulary(const WrittenVocabulary& written, std::string_view what, GgufMetadata& metadata);

}  // namespace quaver::models
