// A text encoder of a pipeline's folder with its tokenizer: prompts in, rows out, and what was cut off.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/diffusers_folder.h"
#include "diffusion/prompt.h"
#include "diffusion/prompt_reader.h"
#include "models/text_encoder/text_encoder.h"
#include "nn/weight_source.h"

namespace quaver::diffusion {

struct EncodedRows {
  at::Tensor rows;                  // [1, tokens, width]
  at::Tensor pooled;                // [1, pooled_width]; undefined where the encoder gives none
  int64_t length = 0;               // tokens before the padding
  std::optional<std::string> note;  // a sentence, where the prompt was too long
};

class EncoderComponent {
 public:
  EncoderComponent(const DiffusersFolder& folder, const PromptReader& reader, const nn::LoadOptions& options);

  // Error(kBadFile) naming the component when the encoder in its folder is not of the kind that is needed, as
  // where two were swapped.
  void require_pooled() const;
  void require_any_length() const;  // a limit on tokens is that of another kind of encoder

  ComponentLinears linears() { return {reader_.component, encoder_->linears()}; }
  int64_t max_tokens() const { return encoder_->info().max_tokens; }

  // Padded to as many tokens as the reader says where the transformer is to see `wanted`. Error(kNonFinite)
  // naming the component.
  EncodedRows encode(std::string_view prompt, int64_t wanted) const;

 private:
  PromptReader reader_;
  std::string path_;
  PromptTokens tokens_;
  std::unique_ptr<models::TextEncoder> encoder_;
};

}  // namespace quaver::diffusion
