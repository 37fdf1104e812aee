// Tool calls without tags: the reply is {"name": ..., "parameters": {...}}, or several with ";" between them.
#include "text/held_back.h"
#include "text/tool_call_json.h"

namespace quaver {
namespace {

// Some models announce a call with this; it is a special token, and usually not in the text.
constexpr std::string_view kPrefix = "<|python_tag|>", kSpace = " \t\r\n", kBetween = " \t\r\n;";

size_t skip(std::string_view s, size_t i, std::string_view characters) {
  return std::min(s.find_first_not_of(characters, i), s.size());
}

class BareParser : public ToolCallParser {
 public:
  ToolDelta push(std::string_view text) override {
    held_ += text;
    ToolDelta delta;
    while (step(delta, false)) {
    }
    return delta;
  }

  ToolDelta finish() override {
    ToolDelta delta;
    while (step(delta, true)) {
    }
    // Separators behind the last call are not content.
    bool separators =
        next_index_ > 0 && state_ == State::kBeforeObject && skip(held_, 0, kBetween) == held_.size();
    if (!separators) delta.content += held_;
    held_.clear();
    return delta;
  }

 private:
  enum class State { kBeforeObject, kObject, kContent };

  // False when more text is needed.
  bool step(ToolDelta& delta, bool last) {
    switch (state_) {
      case State::kBeforeObject:
        return before_object(last);
      case State::kObject:
        return object(delta, last);
      case State::kContent:
        break;
    }
    delta.content += std::exchange(held_, {});
    return false;
  }

  bool before_object(bool last) {
    start_ = skip(held_, 0, next_index_ > 0 ? kBetween : kSpace);
    std::string_view rest = std::string_view(held_).substr(start_);
    if (rest.starts_with(kPrefix)) {
      start_ = skip(held_, start_ + kPrefix.size(), kSpace);
      rest = std::string_view(held_).substr(start_);
    } else if (!last && kPrefix.starts_with(rest)) {
      return false;
    }
    if (rest.empty()) return false;
    state_ = rest[0] == '{' ? State::kObject : State::kContent;
    if (state_ == State::kContent && next_index_ > 0) held_.erase(0, skip(held_, 0, kSpace));
    scanner_ = JsonObjectScanner(start_);
    return true;
  }

  bool object(ToolDelta& delta, bool last) {
    size_t end = scanner_.scan(held_);
    if (end == std::string::npos && !last) return false;
    std::optional<ToolCall> call;
    if (end != std::string::npos)
      call = parse_tool_call(std::string_view(held_).substr(start_, end - start_));
    state_ = call ? State::kBeforeObject : State::kContent;
    if (!call) return true;
    delta.calls.push_back({next_index_++, std::move(call->name), std::move(call->arguments)});
    held_.erase(0, end);
    return true;
  }

  State state_ = State::kBeforeObject;
  std::string held_;
  size_t start_ = 0;  // of the object in held_
  JsonObjectScanner scanner_;
  int32_t next_index_ = 0;
};

}  // namespace

std::unique_ptr<ToolCallParser> make_bare_tool_parser() { return std::make_unique<BareParser>(); }

}  // namespace quaver
