// Sizes as people write them on a command line: "5GB", "5GiB", "10KB".
#pragma once

#include <cstdint>
#include <string_view>

namespace quaver {

// Bytes. KB MB GB TB are powers of 1000, KiB MiB GiB TiB powers of 1024, no unit or B is bytes; case does not
// matter and fractions are allowed ("1.5GB"). Throws Error(kInvalidInput) beginning with `what` on anything
// else, on zero and on what passes 2^63.
uint64_t parse_byte_size(std::string_view text, std::string_view what);

}  // namespace quaver
