// The visible space of SentencePiece, as pre-tokenizer and decoder share it.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace quaver::text {

enum class PrependScheme { kFirst, kNever, kAlways };

struct Metaspace {
  std::string replacement = "\u2581";  // one character
  PrependScheme scheme = PrependScheme::kAlways;
  bool split = true;
};

// Errors are Error(kBadFile) beginning with `what`.
Metaspace read_metaspace(const json& spec, std::string_view what);

}  // namespace quaver::text
