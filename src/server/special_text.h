// Keeps special tokens that a user wrote out as text from becoming special tokens in a rendered chat.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quaver::server {

// Before rendering, every spelling of a special token inside a message gets an invisible mark in front; the
// template copies it along. After rendering, the text between the template's own special tokens is encoded
// without recognising special tokens wherever a mark stands. A chat without such spellings is encoded in one
// piece, exactly as the reference does. Immutable and thread safe; borrows the tokenizer.
//
// Known limit: a tokenizer that puts a space before the start of a text does so after each special token
// around a marked piece.
class SpecialText {
 public:
  explicit SpecialText(const Tokenizer& tokenizer);

  // A character (UTF-8) that occurs in none of the texts of `value`. Throws ApiError when there is none.
  static std::string choose_mark(const ordered_json& value);
  // Marks every text inside `value`, keys excepted.
  void mark(ordered_json& value, std::string_view mark) const;
  std::vector<int32_t> encode(std::string_view rendered, std::string_view mark,
                              bool add_special_tokens) const;

 private:
  struct Segment {
    std::string text;
    bool plain = false;  // special tokens in it are text
  };
  std::vector<Segment> segments(std::string_view rendered, std::string_view mark) const;
  size_t match_at(std::string_view text, size_t position) const;
  std::string marked(const std::string& text, std::string_view mark) const;

  const Tokenizer& tokenizer_;
  std::vector<std::string> spellings_;  // sorted
};

}  // namespace quaver::server
