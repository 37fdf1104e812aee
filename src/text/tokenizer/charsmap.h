// The table of character replacements that SentencePiece compiles into its models.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quaver::text {

// Immutable and thread safe. Layout (sentencepiece, normalizer.cc): u32 size of the trie in bytes, a
// darts-clone double array of u32, and a text of NUL-terminated replacements that the trie's values point
// into.
class Charsmap {
 public:
  // Throws Error(kBadFile) beginning with `what`.
  static Charsmap from_base64(std::string_view encoded, std::string_view what);
  static Charsmap from_bytes(std::span<const std::byte> bytes, std::string_view what);

  // The replacement of the shortest prefix of `text` that has one, as the `tokenizers` library takes it.
  std::optional<std::string_view> find(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace quaver::text
