// The number formats of quantized codes and of their scales, by name and width.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace quaver {

// What the bits of one stored code mean. Integer codes are unsigned in memory (0 ... 2^bits-1); the zero
// point makes them signed.
enum class Element : uint8_t {
  kInt2,
  kInt3,
  kInt4,
  kInt5,
  kInt6,
  kInt7,
  kInt8,
  kE4M3FN,
  kE4M3FNUZ,
  kE5M2,
  kE2M1,
  kE2M3,
  kE3M2,
  kNF4,
  kIQ4NL,
  kFP4
};

// How a scale is stored. The integers lie in a byte each: unsigned ones below 64 or 16, or signed ones.
enum class ScaleCodec : uint8_t { kF32, kF16, kBF16, kE4M3FN, kE8M0, kU6, kU4, kE5M3, kI8 };

struct ScaleCodecInfo {
  ScaleCodec codec;
  std::string_view name;
  int bytes;  // of one entry
};

inline constexpr std::array kScaleCodecs = {
    ScaleCodecInfo{ScaleCodec::kF32, "f32", 4},   ScaleCodecInfo{ScaleCodec::kF16, "f16", 2},
    ScaleCodecInfo{ScaleCodec::kBF16, "bf16", 2}, ScaleCodecInfo{ScaleCodec::kE4M3FN, "e4m3fn", 1},
    ScaleCodecInfo{ScaleCodec::kE8M0, "e8m0", 1}, ScaleCodecInfo{ScaleCodec::kU6, "u6", 1},
    ScaleCodecInfo{ScaleCodec::kU4, "u4", 1},     ScaleCodecInfo{ScaleCodec::kE5M3, "e5m3", 1},
    ScaleCodecInfo{ScaleCodec::kI8, "i8", 1},
};

static_assert(
    [] {
      for (size_t i = 0; i < kScaleCodecs.size(); ++i)
        if (static_cast<size_t>(kScaleCodecs[i].codec) != i) return false;
      return true;
    }(),
    "rows stand in the order of the enumeration");

constexpr const ScaleCodecInfo& scale_codec_info(ScaleCodec codec) {
  return kScaleCodecs[static_cast<size_t>(codec)];
}

struct ElementInfo {
  Element element;
  std::string_view name;
  int bits;
  bool integer;
};

inline constexpr std::array kElements = {
    ElementInfo{Element::kInt2, "int2", 2, true},          ElementInfo{Element::kInt3, "int3", 3, true},
    ElementInfo{Element::kInt4, "int4", 4, true},          ElementInfo{Element::kInt5, "int5", 5, true},
    ElementInfo{Element::kInt6, "int6", 6, true},          ElementInfo{Element::kInt7, "int7", 7, true},
    ElementInfo{Element::kInt8, "int8", 8, true},          ElementInfo{Element::kE4M3FN, "e4m3fn", 8, false},
    ElementInfo{Element::kE4M3FNUZ, "e4m3fnuz", 8, false}, ElementInfo{Element::kE5M2, "e5m2", 8, false},
    ElementInfo{Element::kE2M1, "e2m1", 4, false},         ElementInfo{Element::kE2M3, "e2m3", 6, false},
    ElementInfo{Element::kE3M2, "e3m2", 6, false},         ElementInfo{Element::kNF4, "nf4", 4, false},
    ElementInfo{Element::kIQ4NL, "iq4_nl", 4, false},      ElementInfo{Element::kFP4, "fp4", 4, false},
};

constexpr const ElementInfo& element_info(Element element) { return kElements[static_cast<size_t>(element)]; }

constexpr Element integer_element(int bits) { return static_cast<Element>(bits - 2); }  // bits in [2, 8]

}  // namespace quaver
