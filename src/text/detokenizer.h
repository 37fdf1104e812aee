// Turns a growing list of token ids into text pieces that never end inside a character.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace quaver {

// One per sequence; not thread safe; borrows the tokenizer. All pieces joined, the last from finish(), equal
// tokenizer.decode of all ids (broken UTF-8 becomes U+FFFD in finish() or as soon as it can't be completed).
class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens);
  std::string push(int32_t id);  // may be empty
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_tokens_;
  std::vector<int32_t> ids_;              // from the start of the current window
  size_t prefix_end_ = 0, read_end_ = 0;  // ids whose text is context, ids whose text was returned
};

}  // namespace quaver
