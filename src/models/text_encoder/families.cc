// The table of text encoders: one row each.
#include "models/text_encoder/families.h"

#include <array>

namespace quaver::models {

std::span<const TextEncoderFamily> text_encoder_families() {
  static constexpr std::array kFamilies = {
      TextEncoderFamily{"CLIPTextModel", make_clip_text},
      TextEncoderFamily{"CLIPTextModelWithProjection", make_clip_text_projected},
      TextEncoderFamily{"T5EncoderModel", make_t5_encoder},
      TextEncoderFamily{"UMT5EncoderModel", make_umt5_encoder},
      TextEncoderFamily{"Qwen3Model", make_qwen3_body},
      TextEncoderFamily{"Qwen3ForCausalLM", make_qwen3_body},
  };
  return kFamilies;
}

}  // namespace quaver::models
