// Limits that every kind of tokenizer component shares, so that a hostile file can't exhaust time or memory.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/error.h"

namespace quaver::text {

inline constexpr int kMaxSequenceNesting = 16;              // sequences inside sequences; real files have two
inline constexpr size_t kMaxTextBytes = size_t{256} << 20;  // of an input
inline constexpr size_t kMaxItemBytes = size_t{64} << 20;   // of what decoding holds back
inline constexpr size_t kMaxAffixBytes = 4096;  // of texts that are added to, or searched for in, every text

inline void check_text_size(size_t bytes, size_t limit) {
  require(bytes <= limit, ErrorKind::kInvalidInput, "the tokenizer would handle a text of more than ", limit,
          " bytes");
}

// Chains of replacements can grow a text exponentially; honest ones grow it by a small factor.
inline size_t growth_limit(size_t input_bytes) { return (size_t{4} << 20) + 32 * input_bytes; }

}  // namespace quaver::text
