// How writers of LoRA files spell the parts of a layer's update behind the layer's name.
#pragma once

#include <optional>
#include <string_view>

namespace quaver {

enum class LoraPart {
  kDown,   // [rank, in]
  kUp,     // [out, rank]
  kAlpha,  // a number
};

struct LoraPartName {
  std::string_view layer;  // what stands before
  LoraPart part;
};

// Nothing for tensors that are no part of a plain LoRA.
std::optional<LoraPartName> lora_part_of(std::string_view tensor);

// What a tensor belongs to that is more than a plain LoRA, for messages: "DoRA"; null when it is nothing
// known.
const char* foreign_adapter_of(std::string_view tensor);

}  // namespace quaver
