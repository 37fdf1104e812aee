// Turns the engine's events into a text completion, whole or streamed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/answer.h"
#include "server/generation.h"
#include "server/logprobs.h"
#include "server/sse.h"

namespace quaver::server {

struct CompletionPrompt {
  std::string text;  // needed for echo and return_prompt_text only
  std::vector<int32_t> tokens;
};

struct CompletionAnswerOptions {
  bool echo = false;
  bool prompt_only = false;                // max_tokens 0: what the engine made is not shown
  std::optional<int32_t> prompt_logprobs;  // as the request asked, apart from echo
  std::vector<CompletionPrompt> prompts;
};

// Choice i belongs to prompt i / n.
class CompletionAnswer : public GenerationListener {
 public:
  CompletionAnswer(AnswerHead head, CompletionAnswerOptions options);
  void on_event(size_t index, llm::Event event) override;
  void on_all_finished() override;
  void on_failure(const ApiError& error) override;

 private:
  struct Choice {
    CompletionLogprobs logprobs;
    std::string text;
    std::vector<int32_t> tokens;
    ordered_json prompt_logprobs;
    llm::Event last;
    bool begun = false;
  };

  const CompletionPrompt& prompt_of(size_t index) const;
  void begin(Choice& choice, size_t index, const llm::Event& event);
  void send_piece(Choice& choice, size_t index, bool finish);
  ordered_json choice_json(Choice& choice, size_t index, std::string text) const;
  llm::Usage usage() const;

  AnswerHead head_;
  CompletionAnswerOptions options_;
  EventStream stream_;
  std::vector<Choice> choices_;
};

}  // namespace quaver::server
