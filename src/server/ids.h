// Random names for requests and tool calls.
#pragma once

#include <cstddef>
#include <string>

namespace quaver::server {

// `digits` hexadecimal digits. Unique, not secret. Thread safe.
std::string random_hex(size_t digits);

}  // namespace quaver::server
