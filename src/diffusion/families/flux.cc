// FLUX.1, dev and schnell: CLIP's pooled row and T5's rows.
#include <array>
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

  std::vector<ComponentLinears> linears() override { return {clip_.linears(), t5_.linears()}; }

 private:
  EncoderComponent clip_, t5_;
};

constexpr std::array kLoraPrefixes = {
    LoraPrefix{"lora_te3_", "text_encoder_2"},                         // kohya's trainer calls T5 the third
    LoraPrefix{"text_encoders.clip_l.transformer.", "text_encoder"},   // ComfyUI
    LoraPrefix{"text_encoders.t5xxl.transformer.", "text_encoder_2"},  //
};

// By the names of the model's first release, then those of xlabs' adapters.
constexpr std::array kLoraAliases = {
    LoraAlias{"double_blocks.*.img_mod.lin", {"transformer_blocks.*.norm1.linear"}},
    LoraAlias{"double_blocks.*.txt_mod.lin", {"transformer_blocks.*.norm1_context.linear"}},
    LoraAlias{"double_blocks.*.img_attn.qkv",
              {"transformer_blocks.*.attn.to_q", "transformer_blocks.*.attn.to_k",
               "transformer_blocks.*.attn.to_v"}},
    LoraAlias{"double_blocks.*.txt_attn.qkv",
              {"transformer_blocks.*.attn.add_q_proj", "transformer_blocks.*.attn.add_k_proj",
               "transformer_blocks.*.attn.add_v_proj"}},
    LoraAlias{"double_blocks.*.img_attn.proj", {"transformer_blocks.*.attn.to_out.0"}},
    LoraAlias{"double_blocks.*.txt_attn.proj", {"transformer_blocks.*.attn.to_add_out"}},
    LoraAlias{"double_blocks.*.img_mlp.0", {"transformer_blocks.*.ff.net.0.proj"}},
    LoraAlias{"double_blocks.*.img_mlp.2", {"transformer_blocks.*.ff.net.2"}},
    LoraAlias{"double_blocks.*.txt_mlp.0", {"transformer_blocks.*.ff_context.net.0.proj"}},
    LoraAlias{"double_blocks.*.txt_mlp.2", {"transformer_blocks.*.ff_context.net.2"}},
    LoraAlias{"single_blocks.*.modulation.lin", {"single_transformer_blocks.*.norm.linear"}},
    LoraAlias{"single_blocks.*.linear1",
              {"single_transformer_blocks.*.attn.to_q", "single_transformer_blocks.*.attn.to_k",
               "single_transformer_blocks.*.attn.to_v", "single_transformer_blocks.*.proj_mlp"}},
    LoraAlias{"single_blocks.*.linear2", {"single_transformer_blocks.*.proj_out"}},
    LoraAlias{"img_in", {"x_embedder"}},
    LoraAlias{"txt_in", {"context_embedder"}},
    LoraAlias{"time_in.in_layer", {"time_text_embed.timestep_embedder.linear_1"}},
    LoraAlias{"time_in.out_layer", {"time_text_embed.timestep_embedder.linear_2"}},
    LoraAlias{"guidance_in.in_layer", {"time_text_embed.guidance_embedder.linear_1"}},
    LoraAlias{"guidance_in.out_layer", {"time_text_embed.guidance_embedder.linear_2"}},
    LoraAlias{"vector_in.in_layer", {"time_text_embed.text_embedder.linear_1"}},
    LoraAlias{"vector_in.out_layer", {"time_text_embed.text_embedder.linear_2"}},
    LoraAlias{"final_layer.linear", {"proj_out"}},
    // Shift and scale there, scale and shift here.
    LoraAlias{"final_layer.adaLN_modulation.1", {"norm_out.linear"}, true},
    LoraAlias{"double_blocks.*.processor.qkv_lora1",
              {"transformer_blocks.*.attn.to_q", "transformer_blocks.*.attn.to_k",
               "transformer_blocks.*.attn.to_v"}},
    LoraAlias{"double_blocks.*.processor.qkv_lora2",
              {"transformer_blocks.*.attn.add_q_proj", "transformer_blocks.*.attn.add_k_proj",
               "transformer_blocks.*.attn.add_v_proj"}},
    LoraAlias{"double_blocks.*.processor.proj_lora1", {"transformer_blocks.*.attn.to_out.0"}},
    LoraAlias{"double_blocks.*.processor.proj_lora2", {"transformer_blocks.*.attn.to_add_out"}},
    LoraAlias{"single_blocks.*.processor.qkv_lora",
              {"single_transformer_blocks.*.attn.to_q", "single_transformer_blocks.*.attn.to_k",
               "single_transformer_blocks.*.attn.to_v"}},
    LoraAlias{"single_blocks.*.processor.proj_lora", {"single_transformer_blocks.*.proj_out"}},
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
      .cache_polynomial = {498.651651, -283.781631, 55.8554382, -3.82021401, 0.264230861},
      .lora = {.prefixes = kLoraPrefixes, .aliases = kLoraAliases}};
  return kRow;
}

}  // namespace quaver::diffusion
