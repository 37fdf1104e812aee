// One metadata value of a GGUF file: a scalar, a string or an array, with the type that the file gave it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace quaver {

// The ids are those of the file format.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
inline constexpr uint32_t kGgufTypeCount = 13;

std::string_view gguf_type_name(GgufType type);  // "u8", "string", "array"
size_t gguf_scalar_bytes(GgufType type);         // 0 for strings and arrays
constexpr bool is_gguf_integer(GgufType type) {
  return type <= GgufType::kI32 || type == GgufType::kU64 || type == GgufType::kI64;
}
constexpr bool is_gguf_float(GgufType type) { return type == GgufType::kF32 || type == GgufType::kF64; }

// Borrows from the mapped file, so that a large array costs no memory until it is asked for.
struct GgufValue {
  GgufType type = GgufType::kU8;     // kArray: the members have `element`
  GgufType element = GgufType::kU8;  // equals `type` unless that is kArray
  uint64_t count = 1;
  std::span<const std::byte> raw;         // little-endian numbers and bools
  std::vector<std::string_view> strings;  // any bytes, not only UTF-8
  std::vector<GgufValue> arrays;          // of an array of arrays

  // Member `i` (0 of a scalar); nothing when it is not of that kind or does not fit. Precondition: i < count.
  std::optional<int64_t> integer(uint64_t i = 0) const;  // of any integer type
  std::optional<double> number(uint64_t i = 0) const;    // of any integer or float type
  std::optional<bool> boolean(uint64_t i = 0) const;
  std::optional<std::string_view> string(uint64_t i = 0) const;
};

}  // namespace quaver
