// FLUX.1, dev and schnell: CLIP's pooled row and T5's rows.
#include <optional>
#include <utility>

#include "diffusion/families/encoder_component.h"
#include "diffusion/families/rows.h"

namespace quaver::diffusion {

namespace {

constexpr PromptReader kClip = {
    .component = "text_encoder",
    .tokenizer = "tokenizer",
    .sees_padding = true,
    .tokens = [](int64_t, const models::TextEncoderInfo& encoder) { return encoder.max_tokens; }};
// T5 sees the padding too: the transformer was trained so.
constexpr PromptReader kT5 = {
    .component = "text_encoder_2",
    .tokenizer = "tokenizer_2",
    .sees_padding = true,
    .tokens = [](int64_t wanted, const models::TextEncoderInfo&) { return wanted; }};

class FluxPrompts : public PromptEncoder {
 public:
  FluxPrompts(const DiffusersFolder& folder, const nn::LoadOptions& options)
      : clip_(folder, kClip, options), t5_(folder, kT5, options) {
    clip_.require_pooled();
    t5_.require_any_length();
  }

  PromptRows encode(std::string_view prompt, int64_t max_tokens) const override {
    EncodedRows clip = clip_.encode(prompt, max_tokens), t5 = t5_.encode(prompt, max_tokens);
    PromptRows out{.text = t5.rows, .pooled = clip.pooled, .tokens = t5.length, .notes = {}};
    for (std::optional<std::string>* note : {&clip.note, &t5.note})
      if (*note) out.notes.push_back(std::move(**note));
    return out;
  }

 private:
  EncoderComponent clip_, t5_;
};

// Distilled to a few steps without guidance where the transformer takes none: schnell.
ImageDefaults flux_defaults(const models::DitInfo& transformer) {
  if (transformer.takes_guidance)
    return {
        .steps = 28, .text_tokens = 512, .guidance_kind = GuidanceKind::kDistilled, .guidance_scale = 3.5};
  return {.steps = 4, .text_tokens = 256, .guidance_kind = GuidanceKind::kNone, .guidance_scale = 0};
}

}  // namespace

const ImageFamily& flux_family() {
  static const ImageFamily kRow = {
      .name = "FLUX.1",
      .class_names = {"FluxPipeline", "FluxImg2ImgPipeline", "FluxInpaintPipeline"},
      .defaults = flux_defaults,
      .readers = {kClip, kT5},
      .load_prompt_encoder = [](const DiffusersFolder& folder, const nn::LoadOptions& options)
          -> std::unique_ptr<PromptEncoder> { return std::make_unique<FluxPrompts>(folder, options); },
      // Liu et al. (2024), for FLUX.1-dev.
      .cache_polynomial = {498.651651, -283.781631, 55.8554382, -3.82021401, 0.264230861}};
  return kRow;
}

}  // namespace quaver::diffusion
