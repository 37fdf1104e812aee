// What sampled tokens become: text without half characters or stop strings, and the reason to end.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "llm/request.h"
#include "llm/stop_strings.h"
#include "text/detokenizer.h"

namespace quaver::llm {

// One per sequence; not thread safe; borrows the tokenizer and the parameters. Text is produced here once, so
// streamed and unstreamed answers can't differ.
class Output {
 public:
  struct Step {
    std::string text;
    FinishReason finish = FinishReason::kNone;
    std::string stop_text;
    std::optional<int32_t> stop_token;
  };

  // `end_tokens` are the model's own.
  Output(const Tokenizer& tokenizer, const SamplingParams& params, std::span<const int32_t> end_tokens);

  // Nothing may be pushed after a step that finishes. A token that ends the text is part of it only with
  // include_stop_str_in_output. Ids beyond the tokenizer's vocabulary (padding rows of the head) have no
  // text.
  Step push(int32_t token);
  // What was held back; for sequences that end for an outside reason.
  std::string flush();

 private:
  std::string text_of(int32_t token);
  void match(std::string_view piece, Step& step);
  void end(FinishReason reason, Step& step);

  const Tokenizer& tokenizer_;
  const SamplingParams& params_;
  std::vector<int32_t> end_tokens_;
  Detokenizer detokenizer_;
  StopStrings stops_;
  int32_t count_ = 0;
};

}  // namespace quaver::llm
