// Ovis-Image: a causal language model reads the prompt behind a fixed instruction.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "diffusion/families/encoder_component.h"
#include "diffusion/families/rows.h"
#include "models/tokenizer_files.h"

namespace quaver::diffusion {

namespace {

// What the model was trained to be told, and the tokens at the front whose rows it never saw.
constexpr std::string_view kInstruction =
    "Describe the image by detailing the color, quantity, text, shape, size, texture, spatial relationships "
    "of "
    "the objects and background: ";
constexpr int64_t kSkippedRows = 28;

PromptWording instruct(const DiffusersFolder& folder) {
  const std::filesystem::path tokenizer = folder.component_path("tokenizer");
  const std::shared_ptr<ChatTemplate> form = models::open_chat_template(tokenizer.string());
  require(form != nullptr, ErrorKind::kNotFound, tokenizer.string(),
          ": has no chat template, which the prompt is put into");
  return [form](std::string_view prompt) {
    ChatTemplateInput input;
    input.messages.push_back({{"role", "user"}, {"content", cat(kInstruction, prompt)}});
    input.extra["enable_thinking"] = false;
    return form->render(input);
  };
}

constexpr PromptReader kReader = {
    .component = "text_encoder",
    .tokenizer = "tokenizer",
    .sees_padding = false,
    .tokens = [](int64_t wanted, const models::TextEncoderInfo&) { return wanted + kSkippedRows; },
    .wording = instruct};

class OvisPrompts : public PromptEncoder {
 public:
  OvisPrompts(const DiffusersFolder& folder, const nn::LoadOptions& options)
      : encoder_(folder, kReader, options) {}

  // Rows behind the prompt are zero and take part in the transformer.
  PromptRows encode(std::string_view prompt, int64_t max_tokens) const override {
    EncodedRows rows = encoder_.encode(prompt, max_tokens);
    PromptRows out{.text = rows.rows.narrow(1, kSkippedRows, max_tokens),
                   .pooled = {},
                   .tokens = std::max<int64_t>(rows.length - kSkippedRows, 0),
                   .notes = {}};
    if (rows.note) out.notes.push_back(std::move(*rows.note));
    return out;
  }

  std::vector<ComponentLinears> linears() override { return {encoder_.linears()}; }

 private:
  EncoderComponent encoder_;
};

}  // namespace

const ImageFamily& ovis_image_family() {
  static const ImageFamily kRow = {
      .name = "Ovis-Image",
      .class_names = {"OvisImagePipeline"},
      .defaults = [](const models::DitInfo&) -> ImageDefaults {
        return {.steps = 50, .text_tokens = 256, .guidance_kind = GuidanceKind::kTrue, .guidance_scale = 5};
      },
      .readers = {kReader},
      .load_prompt_encoder = [](const DiffusersFolder& folder, const nn::LoadOptions& options)
          -> std::unique_ptr<PromptEncoder> { return std::make_unique<OvisPrompts>(folder, options); },
      .cache_polynomial = {}};
  return kRow;
}

}  // namespace quaver::diffusion
