#include "text/jinja/lexer.h"

#include <algorithm>

#include "base/cat.h"
#include "text/jinja/string_literal.h"
#include "text/jinja/unicode.h"

namespace quaver::jinja {
namespace {

using enum TokenKind;

bool ascii_digit(char c) { return c >= '0' && c <= '9'; }
bool name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80); }

// \r\n and \r become \n; one newline at the very end is dropped.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize(source)) {}

  std::vector<Token> run() {
    while (pos_ < source_.size()) lex_data();
    add(kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void error(std::string message) { throw SyntaxError{std::move(message), line_, column()}; }

  std::string_view rest(size_t from) const {
    return std::string_view(source_).substr(std::min(from, source_.size()));
  }
  bool at(std::string_view text) const { return rest(pos_).starts_with(text); }
  int column() const { return static_cast<int>(pos_ - line_start_) + 1; }
  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_, column()}); }

  void advance(size_t to) {
    for (; pos_ < to; ++pos_)
      if (source_[pos_] == '\n') {
        ++line_;
        line_start_ = pos_ + 1;
      }
  }

  size_t skip_space(size_t i) const {
    while (i < source_.size()) {
      size_t next = i;
      if (!is_space(utf8_next(source_, next))) break;
      i = next;
    }
    return i;
  }

  // Position of the next "{{", "{%" or "{#".
  size_t find_tag(size_t from) const {
    for (size_t i = source_.find('{', from); i != std::string::npos; i = source_.find('{', i + 1))
      if (i + 1 < source_.size() && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#'))
        return i;
    return std::string::npos;
  }

  // The text from pos_ up to a tag, with what the tag's sign or lstrip_blocks takes off its end.
  std::string data_before(size_t tag, size_t sign_at, bool variable) const {
    std::string_view text = std::string_view(source_).substr(pos_, tag - pos_);
    char sign = sign_at < source_.size() ? source_[sign_at] : '\0';
    if (sign == '-') return std::string(strip_right(text));
    if (sign == '+' || variable) return std::string(text);
    size_t line = text.rfind('\n') + 1;  // npos + 1 == 0
    bool starts_line = line > 0 || pos_ == 0 || source_[pos_ - 1] == '\n';
    bool blank = starts_line && strip_right(text.substr(line)).empty();
    return std::string(blank ? text.substr(0, line) : text);
  }

  static std::string_view strip_right(std::string_view text) {
    size_t keep = 0;
    for (size_t i = 0; i < text.size();)
      if (!is_space(utf8_next(text, i))) keep = i;
    return text.substr(0, keep);
  }

  void lex_data() {
    size_t tag = find_tag(pos_);
    if (tag == std::string::npos) {
      add(kData, source_.substr(pos_));
      return advance(source_.size());
    }
    char type = source_[tag + 1];
    std::string data = data_before(tag, tag + 2, type == '{');
    if (!data.empty()) add(kData, std::move(data));
    advance(tag);
    if (type == '#') return lex_comment();
    if (type == '%' && lex_raw()) return;
    add(type == '{' ? kVariableBegin : kBlockBegin, source_.substr(tag, 2));
    advance(tag + 2);
    if (at("-") || at("+")) advance(pos_ + 1);
    lex_code(type == '{' ? "}}" : "%}");
  }

  // Past a closing tag at `end`: the sign before it has been seen; trim_blocks takes one newline.
  void close_tag(size_t end, char sign, bool trim) {
    end += 2;
    if (sign == '-')
      end = skip_space(end);
    else if (trim && sign != '+' && end < source_.size() && source_[end] == '\n')
      ++end;
    advance(end);
  }

  void lex_comment() {
    size_t start = pos_ + 2;
    if (start < source_.size() && (source_[start] == '-' || source_[start] == '+')) ++start;
    size_t end = source_.find("#}", start);
    if (end == std::string::npos) error("Missing end of comment tag");
    char sign = end > start ? source_[end - 1] : '\0';
    close_tag(end, sign, true);
  }

  // "{% raw %}" ... "{% endraw %}"; false when the block at pos_ is another.
  bool lex_raw() {
    size_t i = pos_ + 2;
    if (i < source_.size() && (source_[i] == '-' || source_[i] == '+')) ++i;
    i = skip_space(i);
    if (!rest(i).starts_with("raw")) return false;
    i = skip_space(i + 3);
    bool strip = rest(i).starts_with("-%}");
    if (!strip && !rest(i).starts_with("%}")) return false;
    i += strip ? 3 : 2;
    advance(strip ? skip_space(i) : i);
    lex_raw_body();
    return true;
  }

  void lex_raw_body() {
    for (size_t tag = source_.find("{%", pos_); tag != std::string::npos; tag = source_.find("{%", tag + 1)) {
      size_t i = tag + 2;
      if (i < source_.size() && (source_[i] == '-' || source_[i] == '+')) ++i;
      i = skip_space(i);
      if (!rest(i).starts_with("endraw")) continue;
      i = skip_space(i + 6);
      char sign = i < source_.size() && (source_[i] == '-' || source_[i] == '+') ? source_[i] : '\0';
      if (sign) ++i;
      if (!rest(i).starts_with("%}")) continue;
      std::string data = data_before(tag, tag + 2, false);
      if (!data.empty()) add(kData, std::move(data));
      return close_tag(i, sign, true);
    }
    error("Missing end of raw directive");
  }

  // Expression tokens up to the closing tag.
  void lex_code(std::string_view closing) {
    bool block = closing == "%}";
    while (true) {
      advance(skip_space(pos_));
      if (pos_ >= source_.size()) return;
      if (brackets_.empty()) {
        char sign = at("-") || (block && at("+")) ? source_[pos_] : '\0';
        if (rest(pos_ + (sign != 0)).starts_with(closing)) {
          add(block ? kBlockEnd : kVariableEnd, std::string(closing));
          return close_tag(pos_ + (sign != 0), sign, block);
        }
      }
      lex_token();
    }
  }

  void lex_token() {
    char c = source_[pos_];
    if (ascii_digit(c)) return lex_number();
    if (name_start(c)) return lex_name();
    if (c == '\'' || c == '"') return lex_string();
    lex_operator();
  }

  void lex_name() {
    size_t i = pos_;
    while (i < source_.size()) {
      size_t next = i;
      char32_t c = utf8_next(source_, next);
      bool part =
          c == '_' || (c < 0x80 ? std::isalnum(static_cast<int>(c)) != 0 : is_alpha(c) || is_decimal(c));
      if (!part) break;
      i = next;
    }
    if (i == pos_) error(cat("unexpected char ", string_repr(utf8_split(rest(pos_)).front()), " at ", pos_));
    add(kName, source_.substr(pos_, i - pos_));
    advance(i);
  }

  // Digits with single underscores between them; returns the end.
  template <class Digit>
  size_t digits(size_t i, Digit is_digit_of) const {
    while (i < source_.size()) {
      size_t next = i + (source_[i] == '_');
      if (next >= source_.size() || !is_digit_of(source_[next])) break;
      i = next + 1;
    }
    return i;
  }

  size_t float_end(size_t whole) const {
    size_t i = whole;
    auto has_digit = [&](size_t k) { return k < source_.size() && ascii_digit(source_[k]); };
    if (i < source_.size() && source_[i] == '.' && has_digit(i + 1)) i = digits(i + 1, ascii_digit);
    if (i < source_.size() && (source_[i] == 'e' || source_[i] == 'E')) {
      size_t k = i + 1;
      if (k < source_.size() && (source_[k] == '+' || source_[k] == '-')) ++k;
      if (has_digit(k)) i = digits(k, ascii_digit);
    }
    return i;
  }

  size_t prefixed_end() const {
    if (source_[pos_] != '0' || pos_ + 1 >= source_.size()) return pos_;
    char p = source_[pos_ + 1] | 0x20;
    auto digit = [p](char c) {
      if (p == 'x') return std::isxdigit(static_cast<unsigned char>(c)) != 0;
      return c >= '0' && c <= (p == 'b' ? '1' : '7');
    };
    if (p != 'x' && p != 'o' && p != 'b') return pos_;
    size_t end = digits(pos_ + 2, digit);
    return end > pos_ + 2 ? end : pos_;
  }

  void lex_number() {
    size_t whole = digits(pos_ + 1, ascii_digit);
    bool after_dot = pos_ > 0 && source_[pos_ - 1] == '.';
    size_t end = after_dot ? whole : float_end(whole);
    TokenKind kind = end > whole ? kFloat : kInteger;
    if (kind == kInteger) end = integer_end(whole);
    std::string text = source_.substr(pos_, end - pos_);
    std::erase(text, '_');
    add(kind, std::move(text));
    advance(end);
  }

  // A leading zero takes only zeros, as in Python's integer pattern.
  size_t integer_end(size_t whole) const {
    size_t prefixed = prefixed_end();
    if (prefixed > pos_) return prefixed;
    return source_[pos_] == '0' ? digits(pos_ + 1, [](char c) { return c == '0'; }) : whole;
  }

  void lex_string() {
    char quote = source_[pos_];
    size_t i = pos_ + 1;
    while (i < source_.size() && source_[i] != quote) i += source_[i] == '\\' ? 2 : 1;
    if (i >= source_.size()) error(cat("unexpected char ", string_repr(std::string(1, quote)), " at ", pos_));
    std::string error_text;
    std::string value = unescape(std::string_view(source_).substr(pos_ + 1, i - pos_ - 1), error_text);
    if (!error_text.empty()) error(error_text);
    add(kString, std::move(value));
    advance(i + 1);
  }

  void lex_operator() {
    static constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                      "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                      ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    auto op = std::find_if(std::begin(kOperators), std::end(kOperators), [&](auto o) { return at(o); });
    if (op == std::end(kOperators))
      error(cat("unexpected char ", string_repr(utf8_split(rest(pos_)).front()), " at ", pos_));
    balance(op->front());
    add(kOperator, std::string(*op));
    advance(pos_ + op->size());
  }

  void balance(char c) {
    if (c == '(') brackets_ += ')';
    if (c == '[') brackets_ += ']';
    if (c == '{') brackets_ += '}';
    if (c != ')' && c != ']' && c != '}') return;
    if (brackets_.empty()) error(cat("unexpected '", c, "'"));
    char expected = brackets_.back();
    brackets_.pop_back();
    if (expected != c) error(cat("unexpected '", c, "', expected '", expected, "'"));
  }

  std::string source_;
  size_t pos_ = 0, line_start_ = 0;
  int line_ = 1;
  std::string brackets_;  // the closing brackets still due
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

std::string describe(const Token& token) {
  switch (token.kind) {
    case kData:
      return "template data / text";
    case kBlockBegin:
      return "begin of statement block";
    case kBlockEnd:
      return "end of statement block";
    case kVariableBegin:
      return "begin of print statement";
    case kVariableEnd:
      return "end of print statement";
    case kString:
      return "string";
    case kInteger:
      return "integer";
    case kFloat:
      return "float";
    case kEnd:
      return "end of template";
    case kName:
    case kOperator:
      return token.text;
  }
  return "";
}

}  // namespace quaver::jinja
