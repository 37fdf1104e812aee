// Log-probabilities in the shapes of the chat and the completions route.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llm/request.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quaver::server {

// What one token adds to a text, its leading space included; "token_id:N" when `as_id`. Ids beyond the
// tokenizer's vocabulary (padding rows of the head) have no text.
std::string token_string(const Tokenizer& tokenizer, int32_t id, bool as_id);
// The bytes behind it: those of the vocabulary for a token that is part of a character, else those of the
// text.
std::string token_bytes(const Tokenizer& tokenizer, int32_t id);
// Minus infinity becomes -9999.0, since JSON has none. Throws Error(kNonFinite) on NaN and plus infinity.
double json_logprob(float logprob);

// One entry of choices[].logprobs.content; `position` is not empty, `top` = alternatives to show, -1 = all.
ordered_json chat_logprob(const Tokenizer& tokenizer, const llm::PositionLogprobs& position, int32_t top,
                          bool as_id);

// [null, {"id": {"logprob", "rank", "decoded_token"}}, ...], vLLM's shape.
ordered_json prompt_logprobs_json(const Tokenizer& tokenizer,
                                  const std::vector<llm::PositionLogprobs>& positions);

// Builds choices[].logprobs of /v1/completions piece by piece. Offsets count characters (code points).
class CompletionLogprobs {
 public:
  CompletionLogprobs(const Tokenizer& tokenizer, int32_t top, bool as_ids)
      : tokenizer_(tokenizer), top_(top), as_ids_(as_ids) {}
  void add(const llm::PositionLogprobs& position);
  // A token without a probability: the first of an echoed prompt.
  void add_bare(int32_t token);
  bool empty() const { return tokens_.empty(); }
  ordered_json take();  // what was added since the last call

 private:
  const Tokenizer& tokenizer_;
  int32_t top_;
  bool as_ids_;
  int64_t offset_ = 0;
  ordered_json offsets_ = ordered_json::array(), logprobs_ = ordered_json::array(),
               tokens_ = ordered_json::array(), tops_ = ordered_json::array();
};

}  // namespace quaver::server
