// Text from a file, fit for an error message.
#pragma once

#include <string>
#include <string_view>

namespace quaver::text {

// At most 80 bytes of it, control characters and broken UTF-8 as \xNN, so that a message stays one short
// line.
std::string shown(std::string_view text);

}  // namespace quaver::text
