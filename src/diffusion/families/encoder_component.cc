#include "diffusion/families/encoder_component.h"

#include "checkpoint/printable.h"
#include "diffusion/prompt.h"

namespace quaver::diffusion {

EncoderComponent::EncoderComponent(const DiffusersFolder& folder, const PromptReader& reader,
                                   const nn::LoadOptions& options)
    : reader_(reader), path_(folder.component_path(reader.component).string()), tokens_(folder, reader) {
  const std::unique_ptr<Checkpoint> files = folder.component(reader.component);
  nn::WeightSource source(*files, options);
  encoder_ = models::load_text_encoder(source);
  encoder_->prepare();
}

void EncoderComponent::require_pooled() const {
  require(encoder_->info().pooled_width > 0 && max_tokens() > 0, ErrorKind::kBadFile, path_, ": holds ",
          encoder_->info().family,
          ", which gives no pooled row, expected an encoder that does, such as CLIP; "
          "were two encoders swapped?");
}

void EncoderComponent::require_any_length() const {
  require(max_tokens() == 0, ErrorKind::kBadFile, path_, ": holds ", encoder_->info().family,
          ", which takes at most ", max_tokens(),
          " tokens, expected an encoder without a limit, such as T5; "
          "were two encoders swapped?");
}

EncodedRows EncoderComponent::encode(std::string_view prompt, int64_t wanted) const {
  const int64_t tokens = reader_.tokens(wanted, encoder_->info());
  const models::EncodedPrompt encoded = tokens_.encode(prompt, tokens);
  const std::vector<int64_t> lengths = {encoded.length};
  const models::TextRows rows =
      encoder_->forward(encoded.ids, reader_.sees_padding ? std::span<const int64_t>() : lengths);
  check_finite(rows.rows, reader_.component, "for the prompt");
  EncodedRows out{.rows = rows.rows, .pooled = rows.pooled, .length = encoded.length, .note = {}};
  if (encoded.dropped_tokens > 0)
    out.note = cat(reader_.component, " takes ", tokens, " tokens; the prompt's last ",
                   encoded.dropped_tokens, " were cut off for it: ", printable(encoded.dropped_text));
  return out;
}

}  // namespace quaver::diffusion
