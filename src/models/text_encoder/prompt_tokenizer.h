// Turns prompts into rows of ids of one length, as text encoders take them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace quaver::models {

struct EncodedPrompt {
  at::Tensor ids;              // int64 [1, tokens], on the CPU
  int64_t length = 0;          // of these, what stands before the padding, special tokens included
  int64_t dropped_tokens = 0;  // of the prompt, for which there was no room
  std::string dropped_text;    // theirs, as they decode
};

// Immutable and thread safe.
class PromptTokenizer {
 public:
  // Opens a "tokenizer*" folder of a diffusers pipeline: tokenizer.json, else a SentencePiece model, else
  // CLIP's vocab.json and merges.txt. Error(kBadFile) when no padding token is named or the vocabulary lacks
  // it; Error(kUnsupported) for padding or truncation on the left.
  explicit PromptTokenizer(const std::filesystem::path& folder);

  // Keeps the beginning of a prompt that is too long, and the special tokens on both sides of it; pads behind
  // them. Precondition: tokens is at least the number of special tokens.
  EncodedPrompt encode(std::string_view prompt, int64_t tokens) const;

 private:
  void find_special_tokens(const std::string& folder);
  std::string decoded(std::span<const int32_t> ids) const;

  std::unique_ptr<Tokenizer> tokenizer_;
  int32_t pad_ = 0;
  std::vector<int32_t> before_, after_;  // special tokens around a prompt
  std::string word_end_;                 // of pieces that end words, which decoding leaves; may be empty
};

}  // namespace quaver::models
