// Makes a name from an untrusted file fit for one line of an error message.
#pragma once

#include <string>
#include <string_view>

namespace quaver {

// In single quotes; control characters and bytes that are not ASCII become \xNN, and what is longer than
// `max_bytes` is cut with "...".
std::string printable(std::string_view name, size_t max_bytes = 120);

}  // namespace quaver
