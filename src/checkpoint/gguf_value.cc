#include "checkpoint/gguf_value.h"

#include <array>
#include <bit>
#include <limits>

namespace quaver {
namespace {

struct TypeRow {
  std::string_view name;
  size_t bytes;
};
constexpr std::array<TypeRow, kGgufTypeCount> kValueTypes = {{{"u8", 1},
                                                              {"i8", 1},
                                                              {"u16", 2},
                                                              {"i16", 2},
                                                              {"u32", 4},
                                                              {"i32", 4},
                                                              {"f32", 4},
                                                              {"bool", 1},
                                                              {"string", 0},
                                                              {"array", 0},
                                                              {"u64", 8},
                                                              {"i64", 8},
                                                              {"f64", 8}}};

bool is_signed_type(GgufType type) {
  return type == GgufType::kI8 || type == GgufType::kI16 || type == GgufType::kI32 || type == GgufType::kI64;
}

// The bits of member i, zero-extended.
uint64_t bits_of(const GgufValue& value, uint64_t i) {
  size_t size = gguf_scalar_bytes(value.element);
  uint64_t bits = 0;
  for (size_t b = size; b-- > 0;) bits = bits << 8 | std::to_integer<uint64_t>(value.raw[i * size + b]);
  return bits;
}

}  // namespace

std::string_view gguf_type_name(GgufType type) { return kValueTypes[static_cast<size_t>(type)].name; }
size_t gguf_scalar_bytes(GgufType type) { return kValueTypes[static_cast<size_t>(type)].bytes; }

std::optional<int64_t> GgufValue::integer(uint64_t i) const {
  if (!is_gguf_integer(element)) return std::nullopt;
  uint64_t bits = bits_of(*this, i);
  if (is_signed_type(element)) {
    unsigned shift = 64 - 8 * static_cast<unsigned>(gguf_scalar_bytes(element));
    return static_cast<int64_t>(bits << shift) >> shift;
  }
  if (bits > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return static_cast<int64_t>(bits);
}

std::optional<double> GgufValue::number(uint64_t i) const {
  if (element == GgufType::kF32) return std::bit_cast<float>(static_cast<uint32_t>(bits_of(*this, i)));
  if (element == GgufType::kF64) return std::bit_cast<double>(bits_of(*this, i));
  if (element == GgufType::kU64) return static_cast<double>(bits_of(*this, i));
  if (auto whole = integer(i)) return static_cast<double>(*whole);
  return std::nullopt;
}

std::optional<bool> GgufValue::boolean(uint64_t i) const {
  if (element != GgufType::kBool) return std::nullopt;
  return raw[i] != std::byte{0};
}

std::optional<std::string_view> GgufValue::string(uint64_t i) const {
  if (element != GgufType::kString) return std::nullopt;
  return strings[i];
}

}  // namespace quaver
