// The tensor types of GGUF by id: which are read, and what the others are called.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "numerics/dtype.h"

namespace quaver {

struct GgufTensorType {
  uint32_t id;
  std::string_view name;       // "Q4_K"
  std::optional<DType> dtype;  // nothing: known, and not read
};

// Null for an id that no version of the format defines.
const GgufTensorType* gguf_tensor_type(uint32_t id);
// Null for a type that the format does not have.
const GgufTensorType* gguf_tensor_type(DType dtype);

// True for types whose values stand in blocks, as codes.
bool is_gguf_block_type(DType dtype);

}  // namespace quaver
