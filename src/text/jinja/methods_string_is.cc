// The methods of str that ask about its characters: isalpha and its like.
#include "text/jinja/args.h"
#include "text/jinja/methods.h"
#include "text/jinja/unicode.h"

namespace quaver::jinja {
namespace {

// Not empty, and every character satisfies `Test`.
template <bool (*Test)(char32_t)>
Value every(Interpreter&, const Value& self, Args& args) {
  Bound(args, "str method", {});
  const std::string& s = self.str();
  bool all = !s.empty();
  for (size_t i = 0; i < s.size() && all;) all = Test(utf8_next(s, i));
  return Value::boolean(all);
}

bool alphanumeric(char32_t c) { return is_alpha(c) || is_decimal(c) || is_digit(c) || is_numeric(c); }

// At least one cased character, and none of the other case.
template <bool (*Wanted)(char32_t)>
Value all_cased(Interpreter&, const Value& self, Args& args) {
  Bound(args, "str method", {});
  const std::string& s = self.str();
  bool any = false;
  for (size_t i = 0; i < s.size();) {
    char32_t c = utf8_next(s, i);
    if (is_cased(c) && !Wanted(c)) return Value::boolean(false);
    any |= is_cased(c);
  }
  return Value::boolean(any);
}

Value isascii(Interpreter&, const Value& self, Args&) {
  for (char c : self.str())
    if (c & 0x80) return Value::boolean(false);
  return Value::boolean(true);
}

Value isprintable(Interpreter&, const Value& self, Args&) {
  const std::string& s = self.str();
  for (size_t i = 0; i < s.size();)
    if (!is_printable(utf8_next(s, i))) return Value::boolean(false);
  return Value::boolean(true);
}

Value isidentifier(Interpreter&, const Value& self, Args&) {
  const std::string& s = self.str();
  for (size_t i = 0; i < s.size();) {
    bool first = i == 0;
    char32_t c = utf8_next(s, i);
    if (c != '_' && !is_alpha(c) && (first || !is_decimal(c))) return Value::boolean(false);
  }
  return Value::boolean(!s.empty());
}

Value istitle(Interpreter&, const Value& self, Args&) {
  const std::string& s = self.str();
  bool any = false, in_word = false;
  for (size_t i = 0; i < s.size();) {
    char32_t c = utf8_next(s, i);
    if ((is_upper(c) || is_title(c)) && in_word) return Value::boolean(false);
    if (is_lower(c) && !in_word) return Value::boolean(false);
    in_word = is_cased(c);
    any |= in_word;
  }
  return Value::boolean(any);
}

constexpr std::pair<std::string_view, Method> kMethods[] = {
    {"isalnum", every<alphanumeric>},
    {"isalpha", every<is_alpha>},
    {"isascii", isascii},
    {"isdecimal", every<is_decimal>},
    {"isdigit", every<is_digit>},
    {"isidentifier", isidentifier},
    {"islower", all_cased<is_lower>},
    {"isnumeric", every<is_numeric>},
    {"isprintable", isprintable},
    {"isspace", every<is_space>},
    {"istitle", istitle},
    {"isupper", all_cased<is_upper>},
};

}  // namespace

Method find_string_test_method(std::string_view name) {
  for (const auto& [method, function] : kMethods)
    if (method == name) return function;
  return nullptr;
}

}  // namespace quaver::jinja
