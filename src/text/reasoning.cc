#include "text/reasoning.h"

#include "text/held_back.h"

namespace quaver {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

size_t leading_space(std::string_view s) { return std::min(s.find_first_not_of(kSpace), s.size()); }

}  // namespace

ReasoningParser::ReasoningParser(ReasoningStyle style)
    : style_(std::move(style)), state_(style_.starts_inside ? State::kInside : State::kStart) {}

ReasoningDelta ReasoningParser::push(std::string_view text) {
  held_ += text;
  ReasoningDelta delta;
  step(delta, false);
  return delta;
}

ReasoningDelta ReasoningParser::finish() {
  ReasoningDelta delta;
  step(delta, true);
  return delta;
}

void ReasoningParser::step(ReasoningDelta& delta, bool last) {
  if (state_ == State::kStart && !step_start(delta, last)) return;
  if (state_ == State::kInside && !step_inside(delta, last)) return;
  if (state_ == State::kBetween) {  // the line breaks before the answer
    held_.erase(0, std::min(held_.find_first_not_of("\r\n"), held_.size()));
    if (held_.empty()) return;
    state_ = State::kContent;
  }
  delta.content += held_;
  held_.clear();
}

// Whether the reply begins with the opening tag; false while that cannot be told.
bool ReasoningParser::step_start(ReasoningDelta&, bool last) {
  std::string_view text = std::string_view(held_).substr(leading_space(held_));
  if (text.starts_with(style_.open)) {
    held_ = std::string(text.substr(style_.open.size()));
    state_ = State::kInside;
    return true;
  }
  if (!last && style_.open.starts_with(text)) return false;
  state_ = State::kContent;
  return true;
}

void ReasoningParser::emit_reasoning(ReasoningDelta& delta, std::string_view text) {
  if (!reasoning_begun_) text.remove_prefix(std::min(text.find_first_not_of("\r\n"), text.size()));
  reasoning_begun_ |= !text.empty();
  delta.reasoning += text;
}

// Reasoning up to the closing tag; false when it has not come yet.
bool ReasoningParser::step_inside(ReasoningDelta& delta, bool last) {
  size_t close = held_.find(style_.close);
  size_t end = close == std::string::npos ? held_.size() : close;
  size_t keep = close == std::string::npos && !last ? partial_tag(held_, style_.close) : 0;
  size_t give = end - keep;
  // Line breaks at the end wait: before the closing tag they are dropped.
  bool drop = close != std::string::npos || last;
  size_t text_end = held_.find_last_not_of("\r\n", give ? give - 1 : 0);
  text_end = give == 0 || text_end == std::string::npos ? 0 : text_end + 1;
  emit_reasoning(delta, std::string_view(held_).substr(0, text_end));
  if (!drop) {
    held_.erase(0, text_end);
    return false;
  }
  if (close == std::string::npos) {
    held_.clear();
    return false;
  }
  held_.erase(0, close + style_.close.size());
  state_ = State::kBetween;
  return true;
}

std::unique_ptr<ReasoningParser> reasoning_parser_for(std::string_view chat_template,
                                                      std::string_view prompt) {
  ReasoningStyle style;
  if (chat_template.find(style.close) == std::string_view::npos) return nullptr;
  size_t open = prompt.rfind(style.open), close = prompt.rfind(style.close);
  style.starts_inside =
      open != prompt.npos && (close == prompt.npos || close < open) &&
      leading_space(prompt.substr(open + style.open.size())) == prompt.size() - open - style.open.size();
  return std::make_unique<ReasoningParser>(std::move(style));
}

}  // namespace quaver
