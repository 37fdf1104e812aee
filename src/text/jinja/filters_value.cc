// Filters on single values: conversions, defaults, tojson.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/jinja/args.h"
#include "text/jinja/filter_rows.h"
#include "text/jinja/json_dump.h"
#include "text/jinja/methods.h"
#include "text/jinja/string_literal.h"
#include "text/jinja/unicode.h"

namespace quaver::jinja::filter {
namespace {

// Digits with single underscores between them, as int() and float() take them; nothing if misplaced.
std::optional<std::string> without_underscores(std::string_view s) {
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '_') {
      out += s[i];
      continue;
    }
    auto digit = [&](size_t k) { return k < s.size() && std::isalnum(static_cast<unsigned char>(s[k])); };
    if (i == 0 || !digit(i - 1) || !digit(i + 1)) return std::nullopt;
  }
  return out;
}

std::optional<int64_t> parse_int(std::string_view text, int64_t base) {
  std::optional<std::string> digits = without_underscores(strip(text, std::nullopt, true, true));
  if (!digits || (base != 0 && (base < 2 || base > 36))) return std::nullopt;
  std::string_view s = *digits;
  bool negative = s.starts_with('-');
  if (negative || s.starts_with('+')) s.remove_prefix(1);
  char prefix = s.size() > 2 && s[0] == '0' ? static_cast<char>(s[1] | 0x20) : '\0';
  int64_t prefix_base = prefix == 'x' ? 16 : (prefix == 'o' ? 8 : (prefix == 'b' ? 2 : 0));
  if (prefix_base && (base == 0 || base == prefix_base)) {
    s.remove_prefix(2);
    base = prefix_base;
  }
  uint64_t magnitude = 0;
  auto [end, error] =
      std::from_chars(s.data(), s.data() + s.size(), magnitude, static_cast<int>(base ? base : 10));
  if (error == std::errc::result_out_of_range) fault("integer overflow: '", s, "' does not fit 64 bits");
  if (error != std::errc() || end != s.data() + s.size()) return std::nullopt;
  if (magnitude > static_cast<uint64_t>(INT64_MAX)) fault("integer overflow: '", s, "' does not fit 64 bits");
  return negative ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
}

std::optional<double> parse_float(std::string_view text) {
  std::optional<std::string> digits = without_underscores(strip(text, std::nullopt, true, true));
  if (!digits) return std::nullopt;
  std::string_view s = *digits;
  if (s.starts_with('+') && !s.starts_with("+-")) s.remove_prefix(1);
  if (s.find('(') != s.npos) return std::nullopt;  // nan(...) is C's alone
  double d = 0;
  auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), d);
  if (error == std::errc::result_out_of_range) d = std::strtod(std::string(s).c_str(), nullptr);
  if (error == std::errc::invalid_argument || end != s.data() + s.size()) return std::nullopt;
  return d;
}

std::optional<int64_t> truncated(double d) {
  if (!std::isfinite(d)) return std::nullopt;
  if (std::fabs(d) >= 9223372036854775808.0)
    fault("integer overflow: ", float_repr(d), " does not fit 64 bits");
  return static_cast<int64_t>(d);
}

int64_t round_half_even(int64_t i, int64_t precision) {
  if (precision >= 0) return i;
  if (precision < -18) return 0;
  int64_t unit = 1;
  for (; precision < 0; ++precision) unit *= 10;
  int64_t down = i / unit * unit, rest = i - down;
  if (rest < 0) rest += unit, down -= unit;
  bool up = rest > unit - rest || (rest == unit - rest && (down / unit) % 2 != 0);
  int64_t rounded = 0;
  if (__builtin_add_overflow(down, up ? unit : 0, &rounded))
    fault("integer overflow: the result does not fit 64 bits");
  return rounded;
}

double round_double(double d, int64_t precision) {
  if (!std::isfinite(d) || precision > 320) return d;
  if (precision < -308) return std::copysign(0.0, d);
  if (precision < 0) {
    double unit = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(d / unit) * unit;
  }
  char buffer[800];
  std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), d);
  return std::strtod(buffer, nullptr);
}

}  // namespace

Value absolute(Interpreter&, Args& args) {
  Bound a(args, "abs", {"x"}, 1);
  const Value& v = a.at(0);
  if (v.is_integral()) return v.as_int() < 0 ? negate(v) : Value::integer(v.as_int());
  if (v.is_number()) return Value::number(std::fabs(v.as_double()));
  if (v.is_undefined()) undefined_error(v);
  fault("bad operand type for abs(): '", type_name(v), "'");
}

Value attribute(Interpreter& interpreter, Args& args) {
  Bound a(args, "attr", {"obj", "name"}, 2);
  if (!a.at(1).is_string()) fault("attribute name must be string, not '", type_name(a.at(1)), "'");
  if (a.at(0).is_undefined()) undefined_error(a.at(0));
  if (auto v = find_attribute(interpreter, a.at(0), a.text(1))) return *v;
  return Value::undefined(cat("'", object_type_repr(a.at(0)), "' has no attribute ", string_repr(a.text(1))));
}

Value default_value(Interpreter&, Args& args) {
  Bound a(args, "default", {"value", "default_value", "boolean"}, 1);
  bool missing = a.at(0).is_undefined() || (a.flag(2) && !truthy(a.at(0)));
  if (!missing) return a.at(0);
  return a.has(1) ? a.at(1) : Value::string("");
}

Value file_size(Interpreter&, Args& args) {
  Bound a(args, "filesizeformat", {"value", "binary"}, 1);
  bool text = a.at(0).is_string();
  if (!text && !a.at(0).is_number()) fault("could not convert value to float");
  double size = text ? parse_float(a.text(0)).value_or(std::nan("")) : a.at(0).as_double();
  if (std::isnan(size)) fault("could not convert value to float");
  double base = a.flag(1) ? 1024 : 1000, unit = base;
  if (size == 1) return Value::string("1 Byte");
  if (size < base) return Value::string(cat(truncated(size).value_or(0), " Bytes"));
  static constexpr std::string_view kPrefixes = "kMGTPEZY";
  size_t i = 0;
  while (i + 1 < kPrefixes.size() && size >= unit * base) unit *= base, ++i;
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.1f ", size / unit);
  std::string prefix = a.flag(1) ? cat(kPrefixes[i] == 'k' ? 'K' : kPrefixes[i], "i") : cat(kPrefixes[i]);
  return Value::string(cat(std::string_view(buffer), prefix, "B"));
}

Value to_float(Interpreter&, Args& args) {
  Bound a(args, "float", {"value", "default"}, 1);
  const Value& v = a.at(0);
  if (v.is_undefined()) undefined_error(v);
  if (v.is_number()) return Value::number(v.as_double());
  std::optional<double> d = v.is_string() ? parse_float(v.str()) : std::nullopt;
  if (d) return Value::number(*d);
  return a.has(1) ? a.at(1) : Value::number(0);
}

Value to_int(Interpreter&, Args& args) {
  Bound a(args, "int", {"value", "default", "base"}, 1);
  const Value& v = a.at(0);
  if (v.is_undefined()) undefined_error(v);
  std::optional<int64_t> i;
  if (v.is_integral())
    i = v.as_int();
  else if (v.is_number())
    i = truncated(v.as_double());
  else if (v.is_string()) {
    i = parse_int(v.str(), a.integer(2, 10));
    std::optional<double> d = i ? std::nullopt : parse_float(v.str());
    if (d) i = truncated(*d);
  }
  if (i) return Value::integer(*i);
  return a.has(1) ? a.at(1) : Value::integer(0);
}

Value length(Interpreter&, Args& args) {
  Bound a(args, "length", {"value"}, 1);
  std::optional<size_t> n = length_of(a.at(0));
  if (!n) fault("object of type '", type_name(a.at(0)), "' has no len()");
  return Value::integer(static_cast<int64_t>(*n));
}

namespace {
// A copy with every dict ordered by its keys, as pprint shows it.
Value with_sorted_keys(const Value& v) {
  if (v.is_sequence(SequenceKind::kList) || v.is_sequence(SequenceKind::kTuple)) {
    std::vector<Value> items;
    for (const Value& item : v.items()) items.push_back(with_sorted_keys(item));
    return Value::sequence(v.seq().kind, std::move(items));
  }
  if (!v.is_dict()) return v;
  auto entries = v.as_dict().entries;
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return compare(a.first, b.first, "<") < 0; });
  auto dict = std::make_shared<Dict>();
  for (const auto& [key, value] : entries) dict->set(key, with_sorted_keys(value));
  return Value::dict(std::move(dict));
}
}  // namespace

Value pretty(Interpreter& interpreter, Args& args) {
  Bound a(args, "pprint", {"value"}, 1);
  std::string text = interpreter.repr(with_sorted_keys(a.at(0)));
  if (utf8_length(text) > 80)
    fault("the filter pprint is supported only for values that fit one line of 80 characters");
  return Value::string(std::move(text));
}

Value round(Interpreter&, Args& args) {
  Bound a(args, "round", {"value", "precision", "method"}, 1);
  std::string method = a.has(2) ? a.text(2) : "common";
  int64_t precision = a.integer(1, 0);
  if (method != "common" && method != "ceil" && method != "floor")
    fault("method must be common, ceil or floor");
  const Value& v = a.at(0);
  if (v.is_undefined()) undefined_error(v);
  if (!v.is_number()) fault("type ", type_name(v), " doesn't define __round__ method");
  if (method == "common") {
    if (v.is_integral()) return Value::integer(round_half_even(v.as_int(), precision));
    return Value::number(round_double(v.as_double(), precision));
  }
  double scale = std::pow(10.0, static_cast<double>(precision)), scaled = v.as_double() * scale;
  if (!std::isfinite(scaled)) fault("cannot convert float to integer");
  return Value::number((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value to_json(Interpreter&, Args& args) {
  Bound a(args, "tojson", {"x", "ensure_ascii", "indent", "separators", "sort_keys"}, 1);
  JsonStyle style{.ensure_ascii = a.flag(1), .sort_keys = a.flag(4)};
  if (a.has(2) && a.at(2).is_string())
    style.indent = a.text(2);
  else if (a.has(2) && !a.at(2).is_none()) {
    style.indent = "";
    grow(*style.indent, static_cast<size_t>(std::max<int64_t>(a.integer(2), 0)), " ");
  }
  style.item_separator = style.indent ? "," : ", ";
  if (a.has(3) && !a.at(3).is_none()) {
    std::vector<Value> pair = to_vector(a.at(3));
    if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string())
      fault("tojson() separators must be an (item, key) pair of strings");
    style.item_separator = pair[0].str();
    style.key_separator = pair[1].str();
  }
  return Value::string(dump_json(a.at(0), style));
}

}  // namespace quaver::jinja::filter
