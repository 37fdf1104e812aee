// The % operator and str.format.
#include "text/jinja/format.h"

#include <cmath>

#include "text/jinja/objects.h"
#include "text/jinja/string_literal.h"
#include "text/jinja/unicode.h"

namespace quaver::jinja {
namespace {

bool ascii_digit(char c) { return c >= '0' && c <= '9'; }

// Digits at `i` as a number; `fallback` when there are none.
int64_t read_number(std::string_view s, size_t& i, int64_t fallback) {
  if (i >= s.size() || !ascii_digit(s[i])) return fallback;
  int64_t n = 0;
  for (; i < s.size() && ascii_digit(s[i]); ++i)
    if ((n = n * 10 + (s[i] - '0')) > static_cast<int64_t>(kMaxString))
      fault("Too many decimal digits in format string");
  return n;
}

struct Conversion {
  bool left = false, zero = false, plus = false, space = false, alternate = false;
  int64_t width = 0, precision = -1;
  char type = 0;
};

// One "format % arguments".
class Printf {
 public:
  Printf(Interpreter& interpreter, const std::string& format, const Value& arguments)
      : interpreter_(interpreter), format_(format), arguments_(arguments) {
    is_tuple_ = arguments.is_sequence(SequenceKind::kTuple) || arguments.is_sequence(SequenceKind::kGroup);
  }

  std::string run() {
    while (i_ < format_.size()) {
      size_t percent = std::min(format_.find('%', i_), format_.size());
      grow(out_, std::string_view(format_).substr(i_, percent - i_));
      i_ = percent + 1;
      if (percent < format_.size()) directive();
    }
    bool unused = is_tuple_ ? next_ < arguments_.items().size() : next_ == 0;
    bool mapping = arguments_.is_dict() || arguments_.is_sequence(SequenceKind::kList);
    if (unused && !mapping && !keyed_) fault("not all arguments converted during string formatting");
    return std::move(out_);
  }

 private:
  char peek() const { return i_ < format_.size() ? format_[i_] : '\0'; }

  Value take() {
    if (is_tuple_ && next_ < arguments_.items().size()) return arguments_.items()[next_++];
    if (!is_tuple_ && next_ == 0) {
      ++next_;
      return arguments_;
    }
    fault("not enough arguments for format string");
  }

  Value keyed_value() {
    size_t end = format_.find(')', i_);
    if (end == std::string::npos) fault("incomplete format key");
    std::string key = format_.substr(i_ + 1, end - i_ - 1);
    i_ = end + 1;
    if (!arguments_.is_dict()) fault("format requires a mapping");
    const Value* v = arguments_.as_dict().find(key);
    if (!v) fault(string_repr(key));
    keyed_ = true;
    return *v;
  }

  int64_t number_or_star(int64_t fallback) {
    if (peek() != '*') return read_number(format_, i_, fallback);
    ++i_;
    Value v = take();
    if (!v.is_integral()) fault("* wants int");
    if (v.as_int() > static_cast<int64_t>(kMaxString)) fault("width is too large");
    return v.as_int();
  }

  void directive() {
    std::optional<Value> value;
    if (peek() == '(') value = keyed_value();
    Conversion c;
    for (;; ++i_) {
      if (peek() == '-')
        c.left = true;
      else if (peek() == '+')
        c.plus = true;
      else if (peek() == ' ')
        c.space = true;
      else if (peek() == '#')
        c.alternate = true;
      else if (peek() == '0')
        c.zero = true;
      else
        break;
    }
    c.width = number_or_star(0);
    if (c.width < 0) {
      c.left = true;
      c.width = -std::max(c.width, -static_cast<int64_t>(kMaxString));
    }
    if (peek() == '.') {
      ++i_;
      c.precision = std::max<int64_t>(number_or_star(0), 0);
    }
    if (peek() == 'h' || peek() == 'l' || peek() == 'L') ++i_;
    if (i_ >= format_.size()) fault("incomplete format");
    c.type = format_[i_++];
    if (c.type == '%') return grow(out_, "%");
    if (!value) value = take();
    grow(out_, convert(c, *value));
  }

  std::string convert(const Conversion& c, const Value& v) {
    NumberStyle style{.type = c.type,
                      .sign = c.plus ? '+' : (c.space ? ' ' : '-'),
                      .alternate = c.alternate,
                      .precision = static_cast<int>(c.precision)};
    auto padded = [&](std::string_view body, bool number) {
      if (c.left) return pad(body, " ", '<', static_cast<size_t>(c.width));
      return pad(body, c.zero && number ? "0" : " ", number ? (c.zero ? '=' : '>') : '>',
                 static_cast<size_t>(c.width));
    };
    switch (c.type) {
      case 's':
      case 'r':
      case 'a': {
        std::string text = c.type == 's' ? interpreter_.to_string(v) : interpreter_.repr(v);
        if (c.precision >= 0) text.resize(utf8_offset(text, static_cast<size_t>(c.precision)));
        return padded(text, false);
      }
      case 'c':
        return padded(character(v), false);
      case 'd':
      case 'i':
      case 'u':
        style.type = 'd';
        return padded(format_integer(to_integer(v, c.type), style), true);
      case 'x':
      case 'X':
      case 'o':
        if (!v.is_integral()) fault("%", c.type, " format: an integer is required, not ", type_name(v));
        return padded(format_integer(v.as_int(), style), true);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (v.is_undefined()) undefined_error(v);
        if (!v.is_number()) fault("must be real number, not ", type_name(v));
        return padded(format_float(v.as_double(), style), true);
      default:
        fault("unsupported format character '", c.type, "' at index ", i_ - 1);
    }
  }

  static int64_t to_integer(const Value& v, char type) {
    if (v.is_undefined()) undefined_error(v);
    if (!v.is_number()) fault("%", type, " format: a real number is required, not ", type_name(v));
    if (v.is_integral()) return v.as_int();
    double d = v.as_double();
    if (!(std::fabs(d) < 9.2e18)) fault("cannot convert float ", float_repr(d), " to integer");
    return static_cast<int64_t>(d);
  }

  static std::string character(const Value& v) {
    if (v.is_string() && v.text().length == 1) return v.str();
    if (!v.is_integral() || v.as_int() < 0 || v.as_int() > 0x10FFFF) fault("%c requires int or char");
    std::string out;
    utf8_append(out, static_cast<char32_t>(v.as_int()));
    return out;
  }

  Interpreter& interpreter_;
  const std::string& format_;
  Value arguments_;
  bool is_tuple_ = false, keyed_ = false;
  size_t i_ = 0, next_ = 0;
  std::string out_;
};

// One format.format(...).
class StrFormat {
 public:
  StrFormat(Interpreter& interpreter, const Args& args) : interpreter_(interpreter), args_(args) {}

  std::string run(std::string_view s, int depth) {
    if (depth > 2) fault("Max string recursion exceeded");
    std::string out;
    for (size_t i = 0; i < s.size();) {
      char c = s[i];
      bool twice = i + 1 < s.size() && s[i + 1] == c;
      if ((c == '{' || c == '}') && twice) {
        grow(out, s.substr(i, 1));
        i += 2;
      } else if (c == '}') {
        fault("Single '}' encountered in format string");
      } else if (c == '{') {
        grow(out, field(s, ++i, depth));
      } else {
        size_t end = std::min(s.find_first_of("{}", i), s.size());
        grow(out, s.substr(i, end - i));
        i = end;
      }
    }
    return out;
  }

 private:
  // The replacement field whose text starts at `i`; moves past its "}".
  std::string field(std::string_view s, size_t& i, int depth) {
    size_t start = i, colon = s.npos;
    int open = 1;
    for (; i < s.size() && open; ++i) {
      if (s[i] == '{') ++open;
      if (s[i] == '}') --open;
      if (s[i] == ':' && colon == s.npos && open == 1) colon = i;
    }
    if (open) fault("expected '}' before end of string");
    size_t end = i - 1;
    std::string_view name = s.substr(start, std::min(colon, end) - start);
    std::string_view spec = colon == s.npos ? std::string_view() : s.substr(colon + 1, end - colon - 1);
    char conversion = 0;
    if (size_t mark = name.find('!'); mark != name.npos) {
      if (mark + 2 != name.size()) fault("end of string while looking for conversion specifier");
      conversion = name[mark + 1];
      name = name.substr(0, mark);
    }
    Value v = resolve(name);
    if (conversion == 'r' || conversion == 'a')
      v = Value::string(interpreter_.repr(v));
    else if (conversion == 's')
      v = Value::string(interpreter_.to_string(v));
    else if (conversion)
      fault("Unknown conversion specifier ", conversion);
    return format_value(interpreter_, v, run(spec, depth + 1));
  }

  Value first(std::string_view name) {
    size_t i = 0;
    bool number = !name.empty() && name.find_first_not_of("0123456789") == name.npos;
    if (name.empty() || number) {
      int64_t k = number ? read_number(name, i, 0) : automatic_++;
      if (k >= static_cast<int64_t>(args_.positional.size()))
        fault("Replacement index ", k, " out of range for positional args tuple");
      return args_.positional[static_cast<size_t>(k)];
    }
    for (const auto& [key, value] : args_.keyword)
      if (key == name) return value;
    fault(string_repr(name));
  }

  Value resolve(std::string_view name) {
    size_t i = std::min(name.find_first_of(".["), name.size());
    Value v = first(name.substr(0, i));
    while (i < name.size()) {
      bool attribute = name[i] == '.';
      size_t end = attribute ? std::min(name.find_first_of(".[", i + 1), name.size()) : name.find(']', i);
      if (end == name.npos) fault("Missing ']' in format string");
      std::string part(name.substr(i + 1, end - i - 1));
      bool number = !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos;
      if (attribute)
        v = interpreter_.getattr(v, part);
      else
        v = interpreter_.getitem(v, number ? Value::integer(std::stoi(part)) : Value::string(part));
      i = end + (attribute ? 0 : 1);
    }
    return v;
  }

  Interpreter& interpreter_;
  const Args& args_;
  int64_t automatic_ = 0;
};

struct Spec {
  std::string fill = " ";
  char align = 0;
  size_t width = 0;
  bool has_precision = false;
  NumberStyle number;
};

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

Spec parse_spec(std::string_view s) {
  Spec spec;
  size_t i = 0;
  if (!s.empty()) utf8_next(s, i);
  if (i < s.size() && is_align(s[i])) {
    spec.fill = s.substr(0, i);
    spec.align = s[i++];
  } else {
    i = 0;
    if (i < s.size() && is_align(s[i])) spec.align = s[i++];
  }
  if (i < s.size() && (s[i] == '+' || s[i] == '-' || s[i] == ' ')) spec.number.sign = s[i++];
  if (i < s.size() && s[i] == '#') spec.number.alternate = s[i++];
  if (i < s.size() && s[i] == '0') {
    if (!spec.align) {
      spec.align = '=';
      spec.fill.assign(1, '0');
    }
    ++i;
  }
  spec.width = static_cast<size_t>(read_number(s, i, 0));
  if (i < s.size() && (s[i] == ',' || s[i] == '_')) spec.number.grouping = s[i++];
  if (i < s.size() && s[i] == '.') {
    spec.number.precision = static_cast<int>(read_number(s, ++i, -1));
    spec.has_precision = true;
    if (spec.number.precision < 0) fault("Format specifier missing precision");
  }
  if (i < s.size()) spec.number.type = s[i++];
  if (i < s.size()) fault("Invalid format specifier '", s, "'");
  return spec;
}

[[noreturn]] void unknown_code(char type, const Value& v) {
  fault("Unknown format code '", type, "' for object of type '", type_name(v), "'");
}

}  // namespace

std::string format_value(Interpreter& interpreter, const Value& v, std::string_view text) {
  if (text.empty()) return interpreter.to_string(v);
  Spec spec = parse_spec(text);
  char type = spec.number.type;
  bool text_like = v.is_string();
  if (!text_like && !v.is_number())
    fault("unsupported format string passed to ", type_name(v), ".__format__");
  if (text_like) {
    if (type && type != 's') unknown_code(type, v);
    std::string body = interpreter.to_string(v);
    if (spec.has_precision) body.resize(utf8_offset(body, static_cast<size_t>(spec.number.precision)));
    if (spec.align == '=' && spec.fill != "0") fault("'=' alignment not allowed in string format specifier");
    return pad(body, spec.fill, spec.align && spec.align != '=' ? spec.align : '<', spec.width);
  }
  bool float_type = type && std::string_view("eEfFgG%").find(type) != std::string_view::npos;
  if (v.is_integral() && !float_type) {
    if (type && std::string_view("dnbcoxX").find(type) == std::string_view::npos) unknown_code(type, v);
    if (spec.has_precision) fault("Precision not allowed in integer format specifier");
    if (type == 'c') {
      std::string one;
      if (v.as_int() < 0 || v.as_int() > 0x10FFFF) fault("%c arg not in range(0x110000)");
      utf8_append(one, static_cast<char32_t>(v.as_int()));
      return pad(one, spec.fill, spec.align && spec.align != '=' ? spec.align : '<', spec.width);
    }
    return pad(format_integer(v.as_int(), spec.number), spec.fill, spec.align ? spec.align : '>', spec.width);
  }
  if (type && !float_type) unknown_code(type, v);
  return pad(format_float(v.as_double(), spec.number), spec.fill, spec.align ? spec.align : '>', spec.width);
}

Value printf_format(Interpreter& interpreter, const Value& format, const Value& arguments) {
  return Value::string(Printf(interpreter, format.str(), arguments).run(), format.text().markup);
}

std::string str_format(Interpreter& interpreter, const std::string& format, const Args& args) {
  return StrFormat(interpreter, args).run(format, 0);
}

}  // namespace quaver::jinja
