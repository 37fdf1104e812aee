// Words that travel inside a PNG: prompts and settings of generated pictures.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quaver {

// Keyword and text in the order of the file, both UTF-8.
using TextMetadata = std::vector<std::pair<std::string, std::string>>;

// The most that one text may take, inflated.
inline constexpr size_t kMaxPngTextBytes = size_t{4} << 20;

// Every tEXt, zTXt and iTXt chunk before the picture's data, which is where writers put them. Throws
// Error(kInvalidInput), one sentence that begins with `what`, when the bytes are no sound PNG or a text is
// too long.
TextMetadata read_png_text(std::span<const std::byte> bytes, std::string_view what);

}  // namespace quaver
