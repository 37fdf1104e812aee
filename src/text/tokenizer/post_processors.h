// Puts BOS, EOS and the like around the ids of a text: the "post_processor" of a tokenizer.json.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace quaver::text {

// Immutable and thread safe.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  virtual void apply(std::vector<int32_t>& ids, bool add_special_tokens) const = 0;
};

// From a post-processor object. `exists` tells whether an id is in the vocabulary. Errors are Error(kBadFile)
// beginning with `what`.
std::unique_ptr<PostProcessor> make_post_processor(const json& spec, std::string_view what,
                                                   const std::function<bool(int32_t)>& exists);

}  // namespace quaver::text
