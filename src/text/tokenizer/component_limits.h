// Limits that every kind of tokenizer component shares, so that a hostile file can't exhaust time or memory.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/error.h"

namespace quaver::text {

inline constexpr int kMaxSequenceNesting = 16;  // sequences inside sequences; real files have two
inline constexpr size_t kMaxTextBytes = size_t{256} << 20;
inline constexpr size_t kMaxAffixBytes = 4096;  // of texts that are added to, or searched for in, every text

// Chains of replacements can grow a text exponentially.
inline void check_text_size(size_t bytes) {
  require(bytes <= kMaxTextBytes, ErrorKind::kInvalidInput, "the tokenizer makes a text of more than ",
          kMaxTextBytes, " bytes");
}

}  // namespace quaver::text
