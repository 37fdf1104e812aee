// Turns the engine's events into a chat completion, whole or streamed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/answer.h"
#include "server/generation.h"
#include "server/output_parser.h"
#include "server/sse.h"

namespace quaver::server {

struct ChatAnswerOptions {
  std::string echo;     // put before the text of every choice
  std::string opening;  // text the model was made to begin with: read by the parser, part of the answer
  bool include_reasoning = true;
  bool parallel_calls = true;  // false: calls after the first are left out
  std::vector<int32_t> prompt_tokens;
  std::string prompt_text;
  OutputStyle style;
};

class ChatAnswer : public GenerationListener {
 public:
  ChatAnswer(AnswerHead head, ChatAnswerOptions options);
  void on_event(size_t index, llm::Event event) override;
  void on_all_finished() override;
  void on_failure(const ApiError& error) override;

 private:
  struct ToolCall {
    std::string id, name, arguments;
  };
  struct Choice {
    std::unique_ptr<OutputParser> parser;
    std::string content, reasoning;
    std::vector<ToolCall> calls;
    ordered_json logprobs = ordered_json::array();  // streamed: those not sent yet
    std::vector<int32_t> tokens;                    // likewise
    ordered_json prompt_logprobs;
    llm::Event last;
    bool begun = false;
  };

  void begin(Choice& choice, size_t index, const llm::Event& event);
  void take(Choice& choice, size_t index, OutputDelta delta);
  void take_call(Choice& choice, const ToolCallDelta& delta, ordered_json& out);
  void add_logprobs(Choice& choice, const llm::Event& event);
  const char* finish_of(const Choice& choice) const;

  void send_chunk(size_t index, ordered_json delta, ordered_json extra);
  void send_delta(Choice& choice, size_t index, ordered_json delta);
  void send_finish(Choice& choice, size_t index);
  ordered_json choice_json(Choice& choice, size_t index) const;
  ordered_json message_json(const Choice& choice) const;
  llm::Usage usage() const;

  AnswerHead head_;
  ChatAnswerOptions options_;
  EventStream stream_;
  std::vector<Choice> choices_;
};

}  // namespace quaver::server
