// Turns a growing list of token ids into text pieces that never end inside a character.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace quaver {

// One per sequence; not thread safe; borrows the tokenizer. All pieces joined, the last from finish(), equal
// tokenizer.decode of all ids (broken UTF-8 becomes U+FFFD in finish() or as soon as it can't be completed).
// Takes constant time per token, amortised. What is held back: at most three bytes of an unfinished
// character; with byte fallback (<0x0A>) a whole run of byte tokens, since a bad byte changes how all of the
// run is decoded.
class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
      : stream_(tokenizer.decode_stream(skip_special_tokens)) {}
  std::string push(int32_t id) { return stream_->push(id); }  // may be empty
  std::string finish() { return stream_->finish(); }

 private:
  std::unique_ptr<DecodeStream> stream_;
};

}  // namespace quaver
