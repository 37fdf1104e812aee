// Turns token spellings back into text, one token at a time: the "decoder" of a tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"

namespace quaver::text {

// One stage of decoding in progress. The `tokenizers` library maps a whole list of texts to another; here the
// same list passes through piecewise, so that a stream costs what it adds and still equals the decoding of
// the whole. Not thread safe.
class DecodeStage {
 public:
  virtual ~DecodeStage() = default;
  virtual void text(std::string_view fragment) = 0;  // whole characters of the current item of the list
  virtual void end_item() = 0;
  virtual void finish() = 0;  // the list ends; once, and last
};

// Immutable and thread safe.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual std::unique_ptr<DecodeStage> start(std::unique_ptr<DecodeStage> next) const = 0;
};

// From a decoder object; null gives the default, which joins tokens with spaces. Errors are Error(kBadFile)
// beginning with `what`.
std::unique_ptr<Decoder> make_decoder(const json& spec, std::string_view what);

}  // namespace quaver::text
