// Tool calls between tags: <tool_call>{"name": ..., "arguments": {...}}</tool_call>.
#include "text/held_back.h"
#include "text/tool_call_json.h"

namespace quaver {
namespace {

constexpr std::string_view kOpen = "<tool_call>", kClose = "</tool_call>", kSpace = " \t\r\n";

size_t skip_space(std::string_view s, size_t i) { return std::min(s.find_first_not_of(kSpace, i), s.size()); }

class TaggedParser : public ToolCallParser {
 public:
  ToolDelta push(std::string_view text) override {
    held_ += text;
    ToolDelta delta;
    run(delta, false);
    return delta;
  }

  ToolDelta finish() override {
    ToolDelta delta;
    run(delta, true);
    if (!after_call_) delta.content += space_;
    space_.clear();
    return delta;
  }

 private:
  void run(ToolDelta& delta, bool last) {
    while (in_call_ ? read_call(delta, last) : read_content(delta, last)) {
    }
  }

  // Content up to the next opening tag; false when there is none yet.
  bool read_content(ToolDelta& delta, bool last) {
    size_t open = held_.find(kOpen);
    bool found = open != std::string::npos;
    size_t give = found ? open : held_.size() - (last ? 0 : partial_tag(held_, kOpen));
    emit(delta, std::string_view(held_).substr(0, give));
    held_.erase(0, give);
    in_call_ = found;
    scanner_.reset();
    return found;
  }

  // White space next to a call is not content, so that at the end of a text waits for what comes next.
  void emit(ToolDelta& delta, std::string_view text) {
    space_ += text;
    if (after_call_) space_.erase(0, skip_space(space_, 0));
    size_t end = space_.find_last_not_of(kSpace) + 1;
    if (end == 0) return;
    delta.content += space_.substr(0, end);
    space_.erase(0, end);
    after_call_ = false;
  }

  // `held_` begins with the opening tag. False when more text is needed.
  bool read_call(ToolDelta& delta, bool last) {
    size_t start = skip_space(held_, kOpen.size());
    if (start == held_.size()) return last && give_up(delta);
    if (held_[start] != '{') return give_up(delta);
    if (!scanner_) scanner_.emplace(start);
    if (end_ == 0) {
      size_t end = scanner_->scan(held_);
      if (end == std::string::npos) return last && give_up(delta);
      end_ = end;
    }
    size_t after = skip_space(held_, end_);
    std::string_view rest = std::string_view(held_).substr(after);
    bool closed = rest.starts_with(kClose);
    if (!closed && !last && kClose.starts_with(rest)) return false;
    std::optional<ToolCall> call;
    if (closed || rest.empty()) call = parse_tool_call(std::string_view(held_).substr(start, end_ - start));
    if (!call) return give_up(delta);
    delta.calls.push_back({next_index_++, std::move(call->name), std::move(call->arguments)});
    held_.erase(0, after + (closed ? kClose.size() : 0));
    space_.clear();
    after_call_ = true;
    return leave_call();
  }

  // The tag was no call's: it is content, and what follows is read anew.
  bool give_up(ToolDelta& delta) {
    emit(delta, kOpen);
    held_.erase(0, kOpen.size());
    return leave_call();
  }

  bool leave_call() {
    in_call_ = false;
    scanner_.reset();
    end_ = 0;
    return true;
  }

  std::string held_, space_;
  bool in_call_ = false, after_call_ = false;
  std::optional<JsonObjectScanner> scanner_;
  size_t end_ = 0;  // of the call's object, once known
  int32_t next_index_ = 0;
};

}  // namespace

std::unique_ptr<ToolCallParser> make_tagged_tool_parser() { return std::make_unique<TaggedParser>(); }

}  // namespace quaver
