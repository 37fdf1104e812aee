// Environment variables, read with a type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace quaver {

// Unset and empty are alike: nothing.
std::optional<std::string> env_string(const char* name);

// Throws Error(kInvalidInput) when the variable is set and is not a whole number.
std::optional<int64_t> env_int(const char* name);

}  // namespace quaver
