// Rewrites text before it is cut into words: the "normalizer" of a tokenizer.json.
#pragma once

#include <memory>
#include <string_view>

#include "base/json.h"
#include "text/tokenizer/segments.h"

namespace quaver::text {

// Immutable and thread safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // `text` is valid UTF-8 before and after.
  virtual void apply(NormalizedText& text) const = 0;
};

// From a normalizer object; of kinds nested in sequences too. Errors are Error(kBadFile) beginning with
// `what`.
std::unique_ptr<Normalizer> make_normalizer(const json& spec, std::string_view what);

}  // namespace quaver::text
