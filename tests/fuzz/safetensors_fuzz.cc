// Any bytes as a safetensors file: a header whose tensors all lie inside the file, or an Error.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "checkpoint/safetensors_header.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  try {
    for (const auto& entry : quaver::parse_safetensors_header(file, "x.safetensors").entries)
      if (entry.offset > size || entry.info.size_bytes > size - entry.offset) std::abort();
  } catch (const quaver::Error&) {
  }
  return 0;
}
