// Filters that make text.
#include <algorithm>

#include "text/jinja/args.h"
#include "text/jinja/filter_rows.h"
#include "text/jinja/format.h"
#include "text/jinja/methods.h"
#include "text/jinja/string_literal.h"
#include "text/jinja/unicode.h"

namespace quaver::jinja::filter {
namespace {

bool is_markup(const Value& v) { return v.is_string() && v.text().markup; }

template <std::string (*Map)(std::string_view)>
Value mapped(Interpreter& interpreter, const char* name, Args& args) {
  Bound a(args, name, {"s"}, 1);
  return Value::string(Map(interpreter.to_string(a.at(0))), is_markup(a.at(0)));
}

// Every run after a word boundary begins in upper case.
std::string title_words(std::string_view s) {
  std::string out, word;
  auto flush = [&] {
    size_t first = utf8_offset(word, 1);
    grow(out, to_upper(std::string_view(word).substr(0, first)));
    grow(out, to_lower(std::string_view(word).substr(first)));
    word.clear();
  };
  for (size_t i = 0; i < s.size();) {
    size_t start = i;
    char32_t c = utf8_next(s, i);
    bool boundary = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (!boundary) {
      word += s.substr(start, i - start);
      continue;
    }
    flush();
    grow(out, s.substr(start, i - start));
  }
  flush();
  return out;
}

std::string url_quote(std::string_view s, bool query) {
  std::string out;
  for (char c : s) {
    bool plain = std::isalnum(static_cast<unsigned char>(c)) ||
                 (c && std::string_view("_.-~").find(c) != std::string_view::npos);
    if ((plain && !(c & 0x80)) || (c == '/' && !query)) {
      out += c;
    } else if (c == ' ' && query) {
      out += '+';
    } else {
      out += '%';
      out += "0123456789ABCDEF"[static_cast<uint8_t>(c) >> 4];
      out += "0123456789ABCDEF"[c & 15];
    }
  }
  charge(out.size() / 8);
  return out;
}

}  // namespace

Value capitalize(Interpreter& i, Args& args) { return mapped<to_capitalized>(i, "capitalize", args); }
Value lower(Interpreter& i, Args& args) { return mapped<to_lower>(i, "lower", args); }
Value upper(Interpreter& i, Args& args) { return mapped<to_upper>(i, "upper", args); }
Value title(Interpreter& i, Args& args) {
  Bound a(args, "title", {"s"}, 1);
  return Value::string(title_words(i.to_string(a.at(0))));
}

Value center(Interpreter& interpreter, Args& args) {
  Bound a(args, "center", {"value", "width"}, 1);
  Args width{.positional = {a.has(1) ? a.at(1) : Value::integer(80)}};
  return find_string_method("center")(interpreter, Value::string(interpreter.to_string(a.at(0))), width);
}

Value string(Interpreter& interpreter, Args& args) {
  Bound a(args, "string", {"s"}, 1);
  return a.at(0).is_string() ? a.at(0) : Value::string(interpreter.to_string(a.at(0)));
}

Value safe(Interpreter& interpreter, Args& args) {
  Bound a(args, "safe", {"value"}, 1);
  return Value::string(interpreter.to_string(a.at(0)), true);
}

Value escape(Interpreter& interpreter, Args& args) {
  Bound a(args, "escape", {"s"}, 1);
  if (is_markup(a.at(0))) return a.at(0);
  return Value::string(escape_html(interpreter.to_string(a.at(0))), true);
}

Value force_escape(Interpreter& interpreter, Args& args) {
  Bound a(args, "forceescape", {"value"}, 1);
  return Value::string(escape_html(interpreter.to_string(a.at(0))), true);
}

Value format(Interpreter& interpreter, Args& args) {
  if (args.positional.empty()) fault("format() missing required argument 1 ('value')");
  std::vector<Value> rest(args.positional.begin() + 1, args.positional.end());
  if (!rest.empty() && !args.keyword.empty())
    fault("can't handle positional and keyword arguments at the same time");
  Value text = Value::string(interpreter.to_string(args.positional[0]));
  if (args.keyword.empty()) return printf_format(interpreter, text, Value::tuple(std::move(rest)));
  auto named = std::make_shared<Dict>();
  for (const auto& [name, value] : args.keyword) named->set(name, value);
  return printf_format(interpreter, text, Value::dict(std::move(named)));
}

Value indent(Interpreter& interpreter, Args& args) {
  Bound a(args, "indent", {"s", "width", "first", "blank"}, 1);
  if (a.at(0).is_undefined()) undefined_error(a.at(0));
  if (!a.at(0).is_string()) fault("unsupported operand type(s) for +=: '", type_name(a.at(0)), "' and 'str'");
  std::string margin;
  if (a.has(1) && a.at(1).is_string())
    margin = interpreter.to_string(a.at(1));
  else
    grow(margin, static_cast<size_t>(std::max<int64_t>(a.integer(1, 4), 0)), " ");
  std::string text = a.text(0) + "\n", out;
  bool first_line = true;
  for (std::string_view line : split_lines(text, false)) {
    if (!first_line) grow(out, "\n");
    if (first_line ? a.flag(2) : (a.flag(3) || !line.empty())) grow(out, margin);
    grow(out, line);
    first_line = false;
  }
  return Value::string(std::move(out), is_markup(a.at(0)));
}

Value join(Interpreter& interpreter, Args& args) {
  Bound a(args, "join", {"value", "d", "attribute"}, 1);
  AttributePath path(a.get(2));
  std::string separator = a.has(1) ? interpreter.to_string(a.at(1)) : "", out;
  bool first = true;
  Iterator items(a.at(0));
  while (auto item = items.next()) {
    if (!std::exchange(first, false)) grow(out, separator);
    grow(out, interpreter.to_string(path.get(interpreter, std::move(*item))));
  }
  return Value::string(std::move(out));
}

Value replace(Interpreter& interpreter, Args& args) {
  Bound a(args, "replace", {"s", "old", "new", "count"}, 3);
  int64_t count = a.has(3) && !a.at(3).is_none() ? a.integer(3) : -1;
  return Value::string(replace_text(interpreter.to_string(a.at(0)), interpreter.to_string(a.at(1)),
                                    interpreter.to_string(a.at(2)), count));
}

Value strip_tags(Interpreter& interpreter, Args& args) {
  Bound a(args, "striptags", {"value"}, 1);
  std::string s = interpreter.to_string(a.at(0)), bare, out;
  for (auto [open, close] : {std::pair{"<!--", "-->"}, std::pair{"<", ">"}}) {
    size_t i = 0;
    bare.clear();
    for (size_t hit; (hit = s.find(open, i)) != s.npos;) {
      size_t end = s.find(close, hit);
      if (end == s.npos) break;
      bare += s.substr(i, hit - i);
      i = end + std::string_view(close).size();
    }
    s = bare + s.substr(i);
  }
  Args none;
  Value words = find_string_method("split")(interpreter, Value::string(s), none);
  for (const Value& word : words.items()) grow(out, (out.empty() ? "" : " ") + word.str());
  for (auto [entity, plain] : {std::pair{"&lt;", "<"},
                               {"&gt;", ">"},
                               {"&#34;", "\""},
                               {"&quot;", "\""},
                               {"&#39;", "'"},
                               {"&amp;", "&"}})
    out = replace_text(out, entity, plain, -1);
  return Value::string(std::move(out));
}

Value trim(Interpreter& interpreter, Args& args) {
  Bound a(args, "trim", {"value", "chars"}, 1);
  std::string s = interpreter.to_string(a.at(0));
  std::optional<std::string_view> characters;
  if (a.has(1) && !a.at(1).is_none()) characters = a.text(1);
  return Value::string(std::string(strip(s, characters, true, true)), is_markup(a.at(0)));
}

Value truncate(Interpreter&, Args& args) {
  Bound a(args, "truncate", {"s", "length", "killwords", "end", "leeway"}, 1);
  int64_t length = a.integer(1, 255), leeway = a.has(4) && !a.at(4).is_none() ? a.integer(4) : 5;
  std::string end = a.has(3) ? a.text(3) : "...";
  int64_t end_length = static_cast<int64_t>(utf8_length(end));
  if (length < end_length) fault("expected length >= ", end_length, ", got ", length);
  if (leeway < 0) fault("expected leeway >= 0, got ", leeway);
  if (a.at(0).is_undefined()) return a.at(0);
  const std::string& s = a.text(0);
  if (static_cast<int64_t>(a.at(0).text().length) - leeway <= length) return a.at(0);
  std::string out = s.substr(0, utf8_offset(s, static_cast<size_t>(length - end_length)));
  size_t space = out.rfind(' ');
  if (!a.flag(2) && space != out.npos) out.resize(space);
  return Value::string(out + end);
}

Value url_encode(Interpreter& interpreter, Args& args) {
  Bound a(args, "urlencode", {"value"}, 1);
  const Value& v = a.at(0);
  bool pairs = v.is_dict() || v.is_sequence();
  if (!pairs) return Value::string(url_quote(interpreter.to_string(v), false));
  Args none;
  std::vector<Value> entries =
      to_vector(v.is_dict() ? find_container_method(v, "items")(interpreter, v, none) : v);
  std::string out;
  for (const Value& entry : entries) {
    std::vector<Value> pair = to_vector(entry);
    if (pair.size() != 2) fault("urlencode needs (key, value) pairs");
    grow(out, cat(out.empty() ? "" : "&", url_quote(interpreter.to_string(pair[0]), true), "=",
                  url_quote(interpreter.to_string(pair[1]), true)));
  }
  return Value::string(std::move(out));
}

Value word_count(Interpreter& interpreter, Args& args) {
  Bound a(args, "wordcount", {"s"}, 1);
  std::string s = interpreter.to_string(a.at(0));
  int64_t n = 0;
  bool inside = false;
  for (size_t i = 0; i < s.size();) {
    char32_t c = utf8_next(s, i);
    bool part = c == '_' || is_alpha(c) || is_decimal(c) || is_numeric(c);
    n += part && !inside;
    inside = part;
  }
  return Value::integer(n);
}

Value xml_attributes(Interpreter& interpreter, Args& args) {
  Bound a(args, "xmlattr", {"d", "autospace"}, 1);
  if (!a.at(0).is_dict()) fault("'", type_name(a.at(0)), "' object has no attribute 'items'");
  std::string out;
  for (const auto& [key, value] : a.at(0).as_dict().entries) {
    if (value.is_none() || value.is_undefined()) continue;
    std::string name = interpreter.to_string(key);
    if (name.find_first_of(" \t\n\r\f\v/>=") != name.npos)
      fault("Invalid character in attribute name: ", string_repr(name));
    std::string text = is_markup(value) ? value.str() : escape_html(interpreter.to_string(value));
    grow(out, cat(out.empty() ? "" : " ", escape_html(name), "=\"", text, "\""));
  }
  return Value::string(a.flag(1, true) && !out.empty() ? " " + out : out);
}

Value unsupported(Interpreter&, Args&) {
  fault("the filters random, urlize and wordwrap are not supported in chat templates");
}

}  // namespace quaver::jinja::filter
