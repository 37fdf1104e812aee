// The vocabulary of a GGUF, and the tokens in it that begin, end and pad texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf.h"
#include "text/tokenizer.h"

namespace quaver::models {

struct GgufSpecialTokens {
  std::optional<int64_t> bos, unk, pad;
  std::vector<int64_t> eos;  // all that end a reply: the stated one first, then ends of turn
};

// Whether a chat format ends a turn with this token; such ones end replies though no key says so.
bool is_turn_end(std::string_view token);

// None in a file without a vocabulary. Error(kBadFile) when an id lies outside the vocabulary.
GgufSpecialTokens gguf_special_tokens(const GgufFile& file);

// Precondition: the id is within the vocabulary. Error(kBadFile) when the text is not UTF-8.
std::string gguf_token_text(const GgufFile& file, int64_t id);

// `text` as it is; Error(kBadFile) naming the key when it is not UTF-8.
std::string gguf_checked_text(const GgufFile& file, std::string_view key, std::string_view text);

// For tokenizer_from_gguf. Error(kNotFound) when the file carries no vocabulary.
GgufVocabulary gguf_vocabulary(const GgufFile& file);

}  // namespace quaver::models
