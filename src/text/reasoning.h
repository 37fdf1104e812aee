// Splits what a thinking model writes into its reasoning and its answer, as the text streams.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace quaver {

struct ReasoningDelta {
  std::string reasoning,
      content;  // new text of each, either may be empty; a delta's reasoning precedes its content
};

// The tags around a model's reasoning.
struct ReasoningStyle {
  std::string open = "<think>", close = "</think>";
  // The chat template has written `open` already, so that the text begins inside.
  bool starts_inside = false;
};

// One reply. Only the reasoning that the reply begins with (after white space) counts; later tags are
// content. The tags themselves and the line breaks next to them are dropped. However the text is cut into
// pieces, the joined deltas are the same. Not thread safe.
class ReasoningParser {
 public:
  explicit ReasoningParser(ReasoningStyle style = {});
  ReasoningDelta push(std::string_view text);
  ReasoningDelta finish();  // gives out what was held back; nothing may follow

 private:
  enum class State { kStart, kInside, kBetween, kContent };
  void step(ReasoningDelta& delta, bool last);
  bool step_start(ReasoningDelta& delta, bool last);
  bool step_inside(ReasoningDelta& delta, bool last);
  void emit_reasoning(ReasoningDelta& delta, std::string_view text);

  ReasoningStyle style_;
  State state_;
  std::string held_;
  bool reasoning_begun_ = false;
};

// The style that a chat template calls for; null when it knows no reasoning. `prompt` is the rendered prompt:
// when it ends inside an opened reasoning section the reply starts inside.
std::unique_ptr<ReasoningParser> reasoning_parser_for(std::string_view chat_template,
                                                      std::string_view prompt);

}  // namespace quaver
