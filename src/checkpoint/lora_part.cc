#include "checkpoint/lora_part.h"

#include <array>

namespace quaver {

namespace {

struct PartRow {
  std::string_view ending;
  LoraPart part;
};
// Longer endings stand before those that they end in.
constexpr std::array kPartRows = {
    PartRow{".lora_A.weight", LoraPart::kDown},                  // PEFT
    PartRow{".lora_B.weight", LoraPart::kUp},                    //
    PartRow{".lora_A.default.weight", LoraPart::kDown},          // PEFT's state as it is in memory
    PartRow{".lora_B.default.weight", LoraPart::kUp},            //
    PartRow{".lora_down.weight", LoraPart::kDown},               // kohya
    PartRow{".lora_up.weight", LoraPart::kUp},                   //
    PartRow{".lora_linear_layer.down.weight", LoraPart::kDown},  // text encoders of the first diffusers
    PartRow{".lora_linear_layer.up.weight", LoraPart::kUp},      //
    PartRow{".lora.down.weight", LoraPart::kDown},               // diffusers before PEFT
    PartRow{".lora.up.weight", LoraPart::kUp},                   //
    PartRow{".down.weight", LoraPart::kDown},                    // xlabs
    PartRow{".up.weight", LoraPart::kUp},                        //
    PartRow{".alpha", LoraPart::kAlpha},                         // kohya, and others after it
};

struct ForeignRow {
  std::string_view inside;
  const char* name;
};
constexpr std::array kForeignRows = {
    ForeignRow{".dora_scale", "DoRA"},
    ForeignRow{".lora_magnitude_vector", "DoRA"},
    ForeignRow{".lokr_", "LoKr"},
    ForeignRow{".hada_", "LoHa"},
    ForeignRow{".oft_", "OFT"},
    ForeignRow{".lora_mid.", "a LoRA in three parts"},
    ForeignRow{".lora_B.bias", "a LoRA with biases"},
    ForeignRow{".lora_embedding_", "a LoRA of an embedding"},
    ForeignRow{".diff_b", "a change of biases"},
    ForeignRow{".diff", "a change of whole weights"},
};

}  // namespace

std::optional<LoraPartName> lora_part_of(std::string_view tensor) {
  for (const PartRow& row : kPartRows)
    if (tensor.size() > row.ending.size() && tensor.ends_with(row.ending))
      return LoraPartName{tensor.substr(0, tensor.size() - row.ending.size()), row.part};
  return std::nullopt;
}

const char* foreign_adapter_of(std::string_view tensor) {
  for (const ForeignRow& row : kForeignRows)
    if (tensor.find(row.inside) != std::string_view::npos) return row.name;
  return nullptr;
}

}  // namespace quaver
