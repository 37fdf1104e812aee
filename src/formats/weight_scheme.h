// What a checkpoint's settings ask of one layer whose codes and scales are tensors of their own, in no
// vendor's words.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "formats/quant_weight.h"

namespace quaver {

// How codes lie in their tensor: one in a byte; two in a byte, low half first; a bit stream of 32-bit words
// along the input.
enum class CodeStorage : uint8_t { kBytes, kNibbles, kWords };

struct WeightScheme {
  Element element = Element::kE4M3FN;  // 8-bit floats: what the tensor's dtype says beats this
  CodeStorage storage = CodeStorage::kBytes;
  Extent2d group;  // that one scale covers; 0 stands for the whole extent
  // How scales are stored; empty: as any of f32, f16, bf16 or, where blocks are 8-bit floats, e8m0.
  std::optional<ScaleCodec> scale;
  bool has_divisor = false;     // a second level, one number that divides
  bool sign_magnitude = false;  // 4-bit integers as sign and magnitude, in quarters
  bool sym = true;
  bool ordered = false;  // the settings promise an activation order
  ActivationQuant activation;
  bool plain = false;  // not quantized
  std::string rule;    // the setting that says so, for messages
  bool named = false;  // the setting names this layer, not layers at large
};

// "e4m3fn in blocks of [128, 128]"
std::string describe(const WeightScheme& scheme);

// To keep a scheme in a LayerPlan, and to get it back.
json scheme_to_json(const WeightScheme& scheme);
WeightScheme scheme_from_json(const json& value);

}  // namespace quaver
