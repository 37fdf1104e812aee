// The methods of str that make or search text.
#include <algorithm>

#include "text/jinja/args.h"
#include "text/jinja/format.h"
#include "text/jinja/methods.h"
#include "text/jinja/unicode.h"

namespace quaver::jinja {

std::string_view strip(std::string_view s, std::optional<std::string_view> characters, bool left,
                       bool right) {
  auto strips = [&](std::string_view piece) {
    size_t i = 0;
    if (!characters) return is_space(utf8_next(piece, i));
    return characters->find(piece) != std::string_view::npos;
  };
  charge(1 + s.size() * (characters ? characters->size() + 1 : 1) / 8);
  size_t start = 0, end = s.size();
  while (left && start < end) {
    size_t i = start;
    utf8_next(s, i);
    if (!strips(s.substr(start, i - start))) break;
    start = i;
  }
  while (right && end > start) {
    size_t i = end - 1;
    while (i > start && (s[i] & 0xC0) == 0x80 && end - i < 4) --i;
    size_t next = i;
    utf8_next(s, next);
    if (next != end) i = end - 1;  // a stray byte
    if (!strips(s.substr(i, end - i))) break;
    end = i;
  }
  return s.substr(start, end - start);
}

std::string replace_text(std::string_view s, std::string_view from, std::string_view to, int64_t count) {
  std::string out;
  size_t i = 0;
  charge(1 + s.size() / 8);
  if (from.empty()) {
    for (; count != 0 && i <= s.size(); --count) {
      grow(out, to);
      size_t next = i;
      if (i == s.size()) return out;
      utf8_next(s, next);
      grow(out, s.substr(i, next - i));
      i = next;
    }
  }
  for (size_t hit; !from.empty() && count != 0 && (hit = s.find(from, i)) != s.npos; --count) {
    grow(out, s.substr(i, hit - i));
    grow(out, to);
    i = hit + from.size();
  }
  grow(out, s.substr(i));
  return out;
}

std::vector<std::string_view> split_lines(std::string_view s, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t i = 0; i < s.size();) {
    size_t at = i;
    char32_t c = utf8_next(s, i);
    if (!is_line_break(c)) continue;
    if (c == '\r' && i < s.size() && s[i] == '\n') ++i;
    lines.push_back(s.substr(start, (keep_ends ? i : at) - start));
    start = i;
  }
  if (start < s.size()) lines.push_back(s.substr(start));
  return lines;
}

namespace {

Value text(std::string s) { return Value::string(std::move(s)); }

Value texts(const std::vector<std::string_view>& pieces) {
  std::vector<Value> out;
  check_items(pieces.size());
  for (std::string_view piece : pieces) out.push_back(text(std::string(piece)));
  return Value::list(std::move(out));
}

template <std::string (*Map)(std::string_view)>
Value mapped(Interpreter&, const Value& self, Args& args) {
  Bound(args, "str method", {});
  return Value::string(Map(self.str()), self.text().markup);
}

template <bool Left, bool Right>
Value strip_method(Interpreter&, const Value& self, Args& args) {
  Bound a(args, "strip", {""});
  bool all_space = !a.has(0) || a.at(0).is_none();
  if (!all_space && !a.at(0).is_string()) fault("strip arg must be None or str");
  std::optional<std::string_view> characters;
  if (!all_space) characters = a.text(0);
  return Value::string(std::string(strip(self.str(), characters, Left, Right)), self.text().markup);
}

std::vector<std::string_view> split_space(std::string_view s, int64_t limit) {
  std::vector<std::string_view> out;
  while (true) {
    s = strip(s, std::nullopt, true, false);
    if (s.empty()) return out;
    if (limit-- == 0) {
      out.push_back(s);
      return out;
    }
    size_t end = 0;
    for (size_t i = 0; i < s.size(); end = i)
      if (is_space(utf8_next(s, i))) break;
    out.push_back(s.substr(0, end));
    s.remove_prefix(end);
  }
}

std::vector<std::string_view> split_space_right(std::string_view s, int64_t limit) {
  std::vector<std::string_view> words = split_space(s, -1);
  size_t count = words.size();
  if (limit < 0 || count <= static_cast<size_t>(limit)) return words;
  size_t first = count - static_cast<size_t>(limit);  // the words from here stand alone
  std::vector<std::string_view> out;
  const char* end = words[first - 1].data() + words[first - 1].size();
  out.emplace_back(s.data(), static_cast<size_t>(end - s.data()));
  out.insert(out.end(), words.begin() + static_cast<int64_t>(first), words.end());
  return out;
}

std::vector<std::string_view> split_at(std::string_view s, std::string_view separator, int64_t limit) {
  std::vector<std::string_view> out;
  size_t i = 0;
  for (size_t hit; limit-- != 0 && (hit = s.find(separator, i)) != s.npos; i = hit + separator.size())
    out.push_back(s.substr(i, hit - i));
  out.push_back(s.substr(i));
  return out;
}

std::vector<std::string_view> split_at_right(std::string_view s, std::string_view separator, int64_t limit) {
  std::vector<std::string_view> out;
  for (size_t hit; limit-- != 0 && (hit = s.rfind(separator)) != s.npos && s.size() >= separator.size();
       s = s.substr(0, hit))
    out.push_back(s.substr(hit + separator.size()));
  out.push_back(s);
  std::reverse(out.begin(), out.end());
  return out;
}

template <bool Right>
Value split(Interpreter&, const Value& self, Args& args) {
  Bound a(args, Right ? "rsplit" : "split", {"sep", "maxsplit"});
  int64_t limit = a.integer(1, -1);
  charge(1 + self.str().size() / 2);
  if (!a.has(0) || a.at(0).is_none())
    return texts(Right ? split_space_right(self.str(), limit)
                       : split_space(self.str(), limit < 0 ? -1 : limit));
  if (!a.at(0).is_string()) fault("must be str or None, not ", type_name(a.at(0)));
  if (a.text(0).empty()) fault("empty separator");
  return texts(Right ? split_at_right(self.str(), a.text(0), limit) : split_at(self.str(), a.text(0), limit));
}

Value splitlines(Interpreter&, const Value& self, Args& args) {
  Bound a(args, "splitlines", {"keepends"});
  return texts(split_lines(self.str(), a.flag(0)));
}

template <bool Right>
Value partition(Interpreter&, const Value& self, Args& args) {
  Bound a(args, "partition", {""}, 1);
  const std::string &s = self.str(), &separator = a.text(0);
  if (separator.empty()) fault("empty separator");
  size_t hit = Right ? s.rfind(separator) : s.find(separator);
  if (hit == s.npos)
    return Right ? Value::tuple({text(""), text(""), text(s)}) : Value::tuple({text(s), text(""), text("")});
  return Value::tuple({text(s.substr(0, hit)), text(separator), text(s.substr(hit + separator.size()))});
}

Value replace(Interpreter&, const Value& self, Args& args) {
  Bound a(args, "replace", {"", "", ""}, 2);
  for (size_t i : {0, 1})
    if (!a.at(i).is_string()) fault("replace() argument ", i + 1, " must be str, not ", type_name(a.at(i)));
  return Value::string(replace_text(self.str(), a.text(0), a.text(1), a.integer(2, -1)), self.text().markup);
}

Value join(Interpreter&, const Value& self, Args& args) {
  Bound a(args, "join", {""}, 1);
  std::string out;
  size_t i = 0;
  for (const Value& item : to_vector(a.at(0))) {
    if (!item.is_string()) fault("sequence item ", i, ": expected str instance, ", type_name(item), " found");
    if (i++) grow(out, self.str());
    grow(out, item.str());
  }
  return text(std::move(out));
}

// The part [start, end) of the text, for the searching methods; nothing when start lies behind the end.
struct Window {
  std::string_view part;
  size_t start = 0;  // in code points
  bool valid = true;
};

Window window(const Value& self, const Bound& a, size_t first) {
  int64_t length = static_cast<int64_t>(self.text().length);
  auto bound = [&](size_t i, int64_t fallback) {
    if (!a.has(i) || a.at(i).is_none()) return fallback;
    int64_t k = a.integer(i);
    return k < 0 ? std::max<int64_t>(k + length, 0) : k;
  };
  int64_t start = bound(first, 0), end = std::min(bound(first + 1, length), length);
  if (start > length || end < start) return {{}, static_cast<size_t>(std::max<int64_t>(start, 0)), false};
  const std::string& s = self.str();
  size_t from = utf8_offset(s, static_cast<size_t>(start)), to = utf8_offset(s, static_cast<size_t>(end));
  charge(1 + s.size() / 8);
  return {std::string_view(s).substr(from, to - from), static_cast<size_t>(start), true};
}

template <bool Right>
int64_t find_index(const Value& self, Args& args) {
  Bound a(args, "find", {"", "", ""}, 1);
  if (!a.at(0).is_string()) fault("must be str, not ", type_name(a.at(0)));
  Window w = window(self, a, 1);
  size_t hit = Right ? w.part.rfind(a.text(0)) : w.part.find(a.text(0));
  if (!w.valid || hit == w.part.npos) return -1;
  return static_cast<int64_t>(w.start + utf8_length(w.part.substr(0, hit)));
}

template <bool Right>
Value find(Interpreter&, const Value& self, Args& args) {
  return Value::integer(find_index<Right>(self, args));
}

template <bool Right>
Value index(Interpreter&, const Value& self, Args& args) {
  int64_t i = find_index<Right>(self, args);
  if (i < 0) fault("substring not found");
  return Value::integer(i);
}

Value count(Interpreter&, const Value& self, Args& args) {
  Bound a(args, "count", {"", "", ""}, 1);
  if (!a.at(0).is_string()) fault("must be str, not ", type_name(a.at(0)));
  Window w = window(self, a, 1);
  const std::string& needle = a.text(0);
  if (!w.valid) return Value::integer(0);
  if (needle.empty()) return Value::integer(static_cast<int64_t>(utf8_length(w.part)) + 1);
  int64_t n = 0;
  for (size_t i = w.part.find(needle); i != w.part.npos; i = w.part.find(needle, i + needle.size())) ++n;
  return Value::integer(n);
}

template <bool End>
Value affix_test(Interpreter&, const Value& self, Args& args) {
  const char* name = End ? "endswith" : "startswith";
  Bound a(args, name, {"", "", ""}, 1);
  std::vector<Value> candidates =
      a.at(0).is_sequence(SequenceKind::kTuple) ? a.at(0).items() : std::vector{a.at(0)};
  Window w = window(self, a, 1);
  for (const Value& candidate : candidates) {
    if (!candidate.is_string())
      fault(name, " first arg must be str or a tuple of str, not ", type_name(candidate));
    if (w.valid && (End ? w.part.ends_with(candidate.str()) : w.part.starts_with(candidate.str())))
      return Value::boolean(true);
  }
  return Value::boolean(false);
}

Value removeprefix(Interpreter&, const Value& self, Args& args) {
  Bound a(args, "removeprefix", {""}, 1);
  return text(self.str().starts_with(a.text(0)) ? self.str().substr(a.text(0).size()) : self.str());
}

Value removesuffix(Interpreter&, const Value& self, Args& args) {
  Bound a(args, "removesuffix", {""}, 1);
  bool cut = !a.text(0).empty() && self.str().ends_with(a.text(0));
  return text(cut ? self.str().substr(0, self.str().size() - a.text(0).size()) : self.str());
}

size_t width_argument(const Bound& a) { return static_cast<size_t>(std::max<int64_t>(a.integer(0), 0)); }

template <char Align>
Value justify(Interpreter&, const Value& self, Args& args) {
  Bound a(args, "justify", {"", ""}, 1);
  std::string fill = a.has(1) ? a.text(1) : " ";
  if (utf8_length(fill) != 1) fault("The fill character must be exactly one character long");
  size_t width = width_argument(a), length = self.text().length;
  if (Align != '^' || width <= length) return text(pad(self.str(), fill, Align, width));
  size_t room = width - length, left = room / 2 + (room & width & 1);
  std::string out;
  grow(out, left, fill);
  grow(out, self.str());
  grow(out, room - left, fill);
  return text(std::move(out));
}

Value zfill(Interpreter&, const Value& self, Args& args) {
  Bound a(args, "zfill", {""}, 1);
  const std::string& s = self.str();
  return text(pad(s, "0", !s.empty() && (s[0] == '-' || s[0] == '+') ? '=' : '>', width_argument(a)));
}

Value expandtabs(Interpreter&, const Value& self, Args& args) {
  Bound a(args, "expandtabs", {"tabsize"});
  int64_t size = a.integer(0, 8), column = 0;
  std::string out;
  for (std::string_view piece : utf8_split(self.str())) {
    if (piece == "\t") {
      int64_t spaces = size > 0 ? size - column % size : 0;
      grow(out, static_cast<size_t>(spaces), " ");
      column += spaces;
    } else {
      grow(out, piece);
      column = piece == "\n" || piece == "\r" ? 0 : column + 1;
    }
  }
  return text(std::move(out));
}

Value format(Interpreter& interpreter, const Value& self, Args& args) {
  return text(str_format(interpreter, self.str(), args));
}

Value format_map(Interpreter& interpreter, const Value& self, Args& args) {
  Bound a(args, "format_map", {""}, 1);
  Args named;
  if (!a.at(0).is_dict()) fault("format_map() argument must be a mapping");
  for (const auto& [key, value] : a.at(0).as_dict().entries)
    if (key.is_string()) named.keyword.emplace_back(key.str(), value);
  return text(str_format(interpreter, self.str(), named));
}

Value unsupported(Interpreter&, const Value&, Args&) {
  fault("the str methods encode, translate and maketrans are not supported in chat templates");
}

constexpr std::pair<std::string_view, Method> kMethods[] = {
    {"capitalize", mapped<to_capitalized>},
    {"casefold", mapped<to_casefold>},
    {"center", justify<'^'>},
    {"count", count},
    {"encode", unsupported},
    {"endswith", affix_test<true>},
    {"expandtabs", expandtabs},
    {"find", find<false>},
    {"format", format},
    {"format_map", format_map},
    {"index", index<false>},
    {"join", join},
    {"ljust", justify<'<'>},
    {"lower", mapped<to_lower>},
    {"lstrip", strip_method<true, false>},
    {"maketrans", unsupported},
    {"partition", partition<false>},
    {"removeprefix", removeprefix},
    {"removesuffix", removesuffix},
    {"replace", replace},
    {"rfind", find<true>},
    {"rindex", index<true>},
    {"rjust", justify<'>'>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"rstrip", strip_method<false, true>},
    {"split", split<false>},
    {"splitlines", splitlines},
    {"startswith", affix_test<false>},
    {"strip", strip_method<true, true>},
    {"swapcase", mapped<swap_case>},
    {"title", mapped<to_title>},
    {"translate", unsupported},
    {"upper", mapped<to_upper>},
    {"zfill", zfill},
};

}  // namespace

Method find_string_method(std::string_view name) {
  for (const auto& [method, function] : kMethods)
    if (method == name) return function;
  return nullptr;
}

}  // namespace quaver::jinja
