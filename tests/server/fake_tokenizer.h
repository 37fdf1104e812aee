// A tokenizer small enough to follow by hand: one token per byte, a few special and a few long ones.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/tokenizer.h"

namespace quaver::server::testing {

constexpr int32_t kBos = 256, kEos = 257, kImStart = 258, kImEnd = 259, kHello = 260, kSpaceWorld = 261,
                  kToolCall = 262, kEndToolCall = 263, kThink = 264, kEndThink = 265, kVocabSize = 512;

class FakeTokenizer : public Tokenizer {
 public:
  FakeTokenizer() {
    for (int i = 0; i < 256; ++i) texts_.push_back(std::string(1, static_cast<char>(i)));
    for (const char* text : {"<s>", "</s>", "<|im_start|>", "<|im_end|>", "hello", " world", "<tool_call>",
                             "</tool_call>", "<think>", "</think>"})
      texts_.push_back(text);
    while (texts_.size() < kVocabSize) texts_.push_back("<unused" + std::to_string(texts_.size()) + ">");
  }

  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens,
                              bool parse_special) const override {
    std::vector<int32_t> ids;
    if (add_special_tokens) ids.push_back(kBos);
    while (!text.empty()) {
      int32_t id = static_cast<unsigned char>(text[0]);
      for (int32_t i = kBos; i <= kEndThink; ++i)
        if ((parse_special || !is_special(i)) && i != kHello && i != kSpaceWorld &&
            text.starts_with(texts_[static_cast<size_t>(i)]))
          id = i;
      ids.push_back(id);
      text.remove_prefix(texts_[static_cast<size_t>(id)].size());
    }
    return ids;
  }

  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const override {
    std::string bytes;
    for (int32_t id : ids) {
      require(id >= 0 && id < kVocabSize, ErrorKind::kInvalidInput, "token id ", id,
              " is not in the vocabulary");
      if (!(skip_special_tokens && is_special(id))) bytes += texts_[static_cast<size_t>(id)];
    }
    return repaired(bytes);
  }

  // Bytes are spelled as byte-level vocabularies do, as far as the tests look.
  std::string_view token_text(int32_t id) const override {
    if (id == ' ') return "\u0120";
    if (id == 0xc3) return "\u00c3";
    return texts_.at(static_cast<size_t>(id));
  }
  std::optional<int32_t> token_id(std::string_view token) const override {
    for (size_t i = 0; i < texts_.size(); ++i)
      if (texts_[i] == token) return static_cast<int32_t>(i);
    return std::nullopt;
  }
  bool is_special(int32_t id) const override { return id >= kBos && id <= kImEnd; }
  int32_t vocab_size() const override { return kVocabSize; }
  std::string to_tokenizer_json() const override { return "{}"; }

 private:
  // Each byte that belongs to no character becomes U+FFFD.
  static std::string repaired(const std::string& bytes) {
    std::string out;
    for (size_t i = 0; i < bytes.size();) {
      unsigned char c = static_cast<unsigned char>(bytes[i]);
      size_t length = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 0;
      bool whole = length > 0 && i + length <= bytes.size();
      for (size_t k = 1; whole && k < length; ++k)
        whole = (static_cast<unsigned char>(bytes[i + k]) & 0xc0) == 0x80;
      out += whole ? bytes.substr(i, length) : "\xef\xbf\xbd";
      i += whole ? length : 1;
    }
    return out;
  }
  std::vector<std::string> texts_;
};

}  // namespace quaver::server::testing
