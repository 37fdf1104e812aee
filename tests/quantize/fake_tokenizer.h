// A tokenizer for tests that need lengths, not language: one token per byte, a BOS in front.
#pragma once

#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace quaver::quantize {

class ByteTokenizer : public Tokenizer {
 public:
  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens, bool) const override {
    std::vector<int32_t> ids;
    if (add_special_tokens) ids.push_back(256);
    for (unsigned char c : text) ids.push_back(c);
    return ids;
  }
  std::string decode(std::span<const int32_t> ids, bool) const override {
    std::string text;
    for (int32_t id : ids)
      if (id < 256) text.push_back(static_cast<char>(id));
    return text;
  }
  std::string_view token_text(int32_t) const override { return ""; }
  std::optional<int32_t> token_id(std::string_view) const override { return std::nullopt; }
  bool is_special(int32_t id) const override { return id == 256; }
  int32_t vocab_size() const override { return 257; }
  std::string to_tokenizer_json() const override { return "{}"; }
};

}  // namespace quaver::quantize
