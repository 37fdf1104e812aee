// One of a family's text encoders without its weights: what of a prompt it reads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "checkpoint/diffusers_folder.h"
#include "models/text_encoder/prompt_tokenizer.h"
#include "models/text_encoder/text_encoder.h"

namespace quaver::diffusion {

using PromptWording = std::function<std::string(std::string_view prompt)>;

struct PromptReader {
  const char *component, *tokenizer;  // folders of the pipeline
  // False: tokens behind a prompt's own are as if they weren't there, and their rows are zero.
  bool sees_padding;
  // How many tokens are read where the transformer is to see `wanted`.
  int64_t (*tokens)(int64_t wanted, const models::TextEncoderInfo& encoder);
  // What is read in place of the prompt itself; null: the prompt.
  PromptWording (*wording)(const DiffusersFolder& folder) = nullptr;
};

// Immutable and thread safe.
class PromptTokens {
 public:
  // Errors as PromptTokenizer's, and the wording's.
  PromptTokens(const DiffusersFolder& folder, const PromptReader& reader)
      : tokenizer_(folder.component_path(reader.tokenizer)),
        wording_(reader.wording ? reader.wording(folder) : nullptr) {}

  models::EncodedPrompt encode(std::string_view prompt, int64_t tokens) const {
    return wording_ ? tokenizer_.encode(wording_(prompt), tokens) : tokenizer_.encode(prompt, tokens);
  }

 private:
  models::PromptTokenizer tokenizer_;
  PromptWording wording_;
};

}  // namespace quaver::diffusion
