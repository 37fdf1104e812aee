// What users call the types of activations.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

namespace quaver::pipeline {

// float32, float16 or bfloat16; nothing for auto. Error(kInvalidInput) naming `field` otherwise.
std::optional<at::ScalarType> parse_dtype(const std::string& text, const char* field);

}  // namespace quaver::pipeline
