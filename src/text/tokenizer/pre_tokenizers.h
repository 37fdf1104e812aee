// Cuts normalized text into the words that the model sees: the "pre_tokenizer" of a tokenizer.json.
#pragma once

#include <memory>
#include <string_view>

#include "base/json.h"
#include "text/tokenizer/segments.h"

namespace quaver::text {

// Immutable and thread safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Cuts, and may rewrite, every segment that is not an added token. Leaves no empty segments.
  virtual void apply(Segments& segments) const = 0;
};

// From a pre-tokenizer object. Errors are Error(kBadFile) beginning with `what`.
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const json& spec, std::string_view what);

}  // namespace quaver::text
