#include "server/special_text.h"

#include <algorithm>

#include "server/errors.h"

namespace quaver::server {
namespace {

// U+FDD0 ... U+FDEF: code points that Unicode sets aside for a program's own use and no text contains.
constexpr int kMarks = 32;
std::string mark_text(int index) { return {'\xef', '\xb7', static_cast<char>(0x90 + index)}; }

template <class Visit>
void each_text(const ordered_json& value, Visit visit) {
  if (value.is_string()) {
    visit(value.get_ref<const std::string&>());
  } else if (value.is_structured()) {
    for (const auto& inner : value) each_text(inner, visit);
  }
}

}  // namespace

SpecialText::SpecialText(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id)
    if (tokenizer.is_special(id) && !tokenizer.token_text(id).empty())
      spellings_.emplace_back(tokenizer.token_text(id));
  std::sort(spellings_.begin(), spellings_.end());
}

std::string SpecialText::choose_mark(const ordered_json& value) {
  for (int i = 0; i < kMarks; ++i) {
    std::string mark = mark_text(i);
    bool used = false;
    each_text(value, [&](const std::string& text) { used = used || text.find(mark) != std::string::npos; });
    if (!used) return mark;
  }
  throw refused("the messages use every one of the code points U+FDD0 to U+FDEF", "body.messages");
}

// The length of the longest spelling that starts here, 0 when none does.
size_t SpecialText::match_at(std::string_view text, size_t position) const {
  size_t best = 0;
  auto low = spellings_.begin(), high = spellings_.end();
  for (size_t n = 0; low != high && position + n <= text.size(); ++n) {
    if (low->size() == n && n > 0) {
      best = n;
      ++low;  // spellings are unique, and the one that ends here sorts first
    }
    if (position + n == text.size() || low == high) break;
    unsigned char c = static_cast<unsigned char>(text[position + n]);
    auto at = [n](const std::string& s) { return static_cast<unsigned char>(s[n]); };
    low = std::partition_point(low, high, [&](const std::string& s) { return at(s) < c; });
    high = std::partition_point(low, high, [&](const std::string& s) { return at(s) <= c; });
  }
  return best;
}

std::string SpecialText::marked(const std::string& text, std::string_view mark) const {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    size_t length = match_at(text, i);
    if (length > 0) out += mark;
    length = std::max<size_t>(length, 1);
    out.append(text, i, length);
    i += length;
  }
  return out;
}

void SpecialText::mark(ordered_json& value, std::string_view mark_) const {
  if (value.is_string()) {
    value = marked(value.get_ref<const std::string&>(), mark_);
  } else if (value.is_structured()) {
    for (auto& inner : value) mark(inner, mark_);
  }
}

std::vector<int32_t> SpecialText::encode(std::string_view rendered, std::string_view mark,
                                         bool add_special_tokens) const {
  if (mark.empty() || rendered.find(mark) == std::string_view::npos)
    return tokenizer_.encode(rendered, add_special_tokens);
  std::vector<int32_t> ids;
  bool first = true;
  for (const auto& [text, plain] : segments(rendered, mark)) {
    std::vector<int32_t> more = tokenizer_.encode(text, add_special_tokens && first, !plain);
    ids.insert(ids.end(), more.begin(), more.end());
    first = false;
  }
  return ids;
}

// Stretches between the template's own special tokens; those next to each other that hold no mark are one.
std::vector<SpecialText::Segment> SpecialText::segments(std::string_view rendered,
                                                        std::string_view mark) const {
  std::vector<Segment> out;
  Segment current;
  auto close = [&] {
    if (current.text.empty()) return;
    if (!out.empty() && !out.back().plain && !current.plain)
      out.back().text += current.text;
    else
      out.push_back(std::move(current));
    current = {};
  };
  for (size_t i = 0; i < rendered.size();) {
    bool marked_here = rendered.substr(i).starts_with(mark);
    if (marked_here) i += mark.size();
    size_t length = match_at(rendered, i);
    bool own = length > 0 && !marked_here;
    if (own) close();
    current.plain = current.plain || (marked_here && length > 0);
    if (length == 0) length = marked_here ? 0 : 1;
    current.text.append(rendered, i, length);
    if (own) close();
    i += length;
  }
  close();
  return out;
}

}  // namespace quaver::server
