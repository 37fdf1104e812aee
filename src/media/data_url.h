// Media that stand in a request itself: data:image/png;base64,...
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace quaver {

struct DataUrl {
  std::string
      media_type;  // as declared, in lower case without parameters; what the bytes are is for them to say
  std::vector<std::byte> bytes;
};

// True for what can only be meant as one, right or wrong: it begins with "data:" in any case.
bool is_data_url(std::string_view url);

// RFC 2397 with base64 alone: data:TYPE/SUBTYPE[;NAME=VALUE]...;base64,DATA with padded DATA of the standard
// alphabet and nothing else in it. Throws Error(kInvalidInput), one sentence that begins with `what`, for any
// other text and for more than `max_bytes` decoded bytes.
DataUrl parse_data_url(std::string_view url, std::string_view what, size_t max_bytes);

}  // namespace quaver
