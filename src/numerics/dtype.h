// The storage types of tensors in files: how many bytes a run of elements takes, and what each type is
// called.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace quaver {

// Plain types hold one element in `block_bytes`; block types (the q*, iq* and mxfp4_block families of GGUF)
// and the sub-byte floats hold `block_elements` of them. Persistent order is not promised: files carry names
// or their own ids.
enum class DType : uint8_t {
  kBool,
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kU64,
  kI64,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kF16,
  kBF16,
  kF32,
  kF64,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ8_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  kF8E4M3FNUZ,
  kF8E5M2FNUZ,
  kC64,
  kF4,
  kF6E2M3,
  kF6E3M2,
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;              // "f32", "q4_1"
  std::string_view safetensors_name;  // "F32"; empty when safetensors has none
  int32_t block_elements;
  int32_t block_bytes;
};

inline constexpr std::array kDTypes = {
    DTypeInfo{DType::kBool, "bool", "BOOL", 1, 1},
    DTypeInfo{DType::kU8, "u8", "U8", 1, 1},
    DTypeInfo{DType::kI8, "i8", "I8", 1, 1},
    DTypeInfo{DType::kU16, "u16", "U16", 1, 2},
    DTypeInfo{DType::kI16, "i16", "I16", 1, 2},
    DTypeInfo{DType::kU32, "u32", "U32", 1, 4},
    DTypeInfo{DType::kI32, "i32", "I32", 1, 4},
    DTypeInfo{DType::kU64, "u64", "U64", 1, 8},
    DTypeInfo{DType::kI64, "i64", "I64", 1, 8},
    DTypeInfo{DType::kF8E4M3, "f8_e4m3", "F8_E4M3", 1, 1},
    DTypeInfo{DType::kF8E5M2, "f8_e5m2", "F8_E5M2", 1, 1},
    DTypeInfo{DType::kF8E8M0, "f8_e8m0", "F8_E8M0", 1, 1},
    DTypeInfo{DType::kF16, "f16", "F16", 1, 2},
    DTypeInfo{DType::kBF16, "bf16", "BF16", 1, 2},
    DTypeInfo{DType::kF32, "f32", "F32", 1, 4},
    DTypeInfo{DType::kF64, "f64", "F64", 1, 8},
    DTypeInfo{DType::kQ4_0, "q4_0", "", 32, 18},
    DTypeInfo{DType::kQ4_1, "q4_1", "", 32, 20},
    DTypeInfo{DType::kQ5_0, "q5_0", "", 32, 22},
    DTypeInfo{DType::kQ5_1, "q5_1", "", 32, 24},
    DTypeInfo{DType::kQ8_0, "q8_0", "", 32, 34},
    DTypeInfo{DType::kQ2_K, "q2_k", "", 256, 84},
    DTypeInfo{DType::kQ3_K, "q3_k", "", 256, 110},
    DTypeInfo{DType::kQ4_K, "q4_k", "", 256, 144},
    DTypeInfo{DType::kQ5_K, "q5_k", "", 256, 176},
    DTypeInfo{DType::kQ6_K, "q6_k", "", 256, 210},
    DTypeInfo{DType::kQ8_K, "q8_k", "", 256, 292},
    DTypeInfo{DType::kIQ4_NL, "iq4_nl", "", 32, 18},
    DTypeInfo{DType::kIQ4_XS, "iq4_xs", "", 256, 136},
    DTypeInfo{DType::kMXFP4, "mxfp4", "", 32, 17},
    DTypeInfo{DType::kF8E4M3FNUZ, "f8_e4m3fnuz", "F8_E4M3FNUZ", 1, 1},
    DTypeInfo{DType::kF8E5M2FNUZ, "f8_e5m2fnuz", "F8_E5M2FNUZ", 1, 1},
    DTypeInfo{DType::kC64, "c64", "C64", 1, 8},
    DTypeInfo{DType::kF4, "f4", "F4", 2, 1},
    DTypeInfo{DType::kF6E2M3, "f6_e2m3", "F6_E2M3", 4, 3},
    DTypeInfo{DType::kF6E3M2, "f6_e3m2", "F6_E3M2", 4, 3},
};

static_assert(
    [] {
      for (size_t i = 0; i < kDTypes.size(); ++i)
        if (static_cast<size_t>(kDTypes[i].dtype) != i) return false;
      return true;
    }(),
    "rows stand in the order of the enumeration");

constexpr const DTypeInfo& dtype_info(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }

constexpr std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (const DTypeInfo& row : kDTypes)
    if (!name.empty() && row.safetensors_name == name) return row.dtype;
  return std::nullopt;
}

}  // namespace quaver
