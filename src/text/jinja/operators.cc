// Arithmetic, comparison, membership, indexing and slicing, with Python's meaning.
#include <algorithm>
#include <cmath>

#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/objects.h"
#include "text/jinja/unicode.h"

namespace quaver::jinja {
namespace {

[[noreturn]] void unsupported(std::string_view op, const Value& a, const Value& b) {
  if (a.is_undefined()) undefined_error(a);
  if (b.is_undefined()) undefined_error(b);
  fault("unsupported operand type(s) for ", op == "**" ? "** or pow()" : op, ": '", type_name(a), "' and '",
        type_name(b), "'");
}

[[noreturn]] void overflow() { fault("integer overflow: the result does not fit 64 bits"); }

Value checked(__int128 wide) {
  if (wide > INT64_MAX || wide < INT64_MIN) overflow();
  return Value::integer(static_cast<int64_t>(wide));
}

__int128 floor_divide(__int128 a, __int128 b) {
  __int128 q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

double float_modulo(double a, double b) {
  double m = std::fmod(a, b);
  if (m == 0) return std::copysign(0.0, b);
  return (m < 0) != (b < 0) ? m + b : m;
}

double float_floor_divide(double a, double b) {
  double quotient = (a - float_modulo(a, b)) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

Value integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) fault("0.0 cannot be raised to a negative power");
    return Value::number(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  if (base == 0 || base == 1) return Value::integer(exponent == 0 ? 1 : base);
  if (base == -1) return Value::integer(exponent % 2 ? -1 : 1);
  __int128 result = 1;
  for (; exponent > 0; --exponent) {
    result *= base;
    if (result > INT64_MAX || result < INT64_MIN) overflow();
  }
  return Value::integer(static_cast<int64_t>(result));
}

Value float_power(double a, double b) {
  if (a == 0 && b < 0) fault("0.0 cannot be raised to a negative power");
  if (a < 0 && std::floor(b) != b) fault("complex numbers are not supported");
  double r = std::pow(a, b);
  if (std::isinf(r) && !std::isinf(a) && !std::isinf(b)) fault("(34, 'Numerical result out of range')");
  return Value::number(r);
}

Value integer_arithmetic(std::string_view op, int64_t a, int64_t b) {
  __int128 x = a, y = b;
  if (op == "+") return checked(x + y);
  if (op == "-") return checked(x - y);
  if (op == "*") return checked(x * y);
  if (op == "**") return integer_power(a, b);
  if (b == 0) fault(op == "/" ? "division by zero" : "integer division or modulo by zero");
  if (op == "/") return Value::number(static_cast<double>(a) / static_cast<double>(b));
  if (op == "//") return checked(floor_divide(x, y));
  return checked(x - floor_divide(x, y) * y);
}

Value float_arithmetic(std::string_view op, double a, double b) {
  if (op == "+") return Value::number(a + b);
  if (op == "-") return Value::number(a - b);
  if (op == "*") return Value::number(a * b);
  if (op == "**") return float_power(a, b);
  if (b == 0)
    fault(op == "/" ? "float division by zero"
                    : (op == "%" ? "float modulo" : "float floor division by zero"));
  if (op == "/") return Value::number(a / b);
  return Value::number(op == "//" ? float_floor_divide(a, b) : float_modulo(a, b));
}

std::string escaped(const Value& v) { return v.text().markup ? v.str() : escape_html(v.str()); }

Value add_strings(const Value& a, const Value& b) {
  bool markup = a.text().markup || b.text().markup;
  std::string out;
  grow(out, markup ? escaped(a) : a.str());
  grow(out, markup ? escaped(b) : b.str());
  return Value::string(std::move(out), markup);
}

bool is_list_or_tuple(const Value& v) {
  return v.is_sequence(SequenceKind::kList) || v.is_sequence(SequenceKind::kTuple) ||
         v.is_sequence(SequenceKind::kGroup);
}

SequenceKind plain_kind(const Value& v) {
  return v.is_sequence(SequenceKind::kList) ? SequenceKind::kList : SequenceKind::kTuple;
}

Value add(const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) return add_strings(a, b);
  if (is_list_or_tuple(a) && is_list_or_tuple(b) && plain_kind(a) == plain_kind(b)) {
    check_items(a.items().size() + b.items().size());
    std::vector<Value> items = a.items();
    items.insert(items.end(), b.items().begin(), b.items().end());
    return Value::sequence(plain_kind(a), std::move(items));
  }
  if (b.is_undefined()) undefined_error(b);
  if (a.is_string()) fault("can only concatenate str (not \"", type_name(b), "\") to str");
  if (is_list_or_tuple(a))
    fault("can only concatenate ", type_name(a), " (not \"", type_name(b), "\") to ", type_name(a));
  unsupported("+", a, b);
}

std::optional<Value> repeat(const Value& a, const Value& count) {
  if (!count.is_integral()) return std::nullopt;
  size_t n = count.as_int() < 0 ? 0 : static_cast<size_t>(count.as_int());
  if (a.is_string()) {
    std::string out;
    grow(out, n, a.str());
    return Value::string(std::move(out), a.text().markup);
  }
  if (!is_list_or_tuple(a)) return std::nullopt;
  if (!a.items().empty() && n > kMaxItems) check_items(n);
  check_items(a.items().size() * (a.items().empty() ? 1 : n));
  std::vector<Value> items;
  if (!a.items().empty())
    for (size_t i = 0; i < n; ++i) items.insert(items.end(), a.items().begin(), a.items().end());
  return Value::sequence(plain_kind(a), std::move(items));
}

Value multiply(const Value& a, const Value& b) {
  if (auto r = repeat(a, b)) return *r;
  if (auto r = repeat(b, a)) return *r;
  if ((a.is_string() || is_list_or_tuple(a)) && !b.is_undefined())
    fault("can't multiply sequence by non-int of type '", type_name(b), "'");
  if ((b.is_string() || is_list_or_tuple(b)) && !a.is_undefined())
    fault("can't multiply sequence by non-int of type '", type_name(a), "'");
  unsupported("*", a, b);
}

}  // namespace

Value binary(Interpreter& interpreter, std::string_view op, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return integer_arithmetic(op, a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) return float_arithmetic(op, a.as_double(), b.as_double());
  if (op == "+") return add(a, b);
  if (op == "*") return multiply(a, b);
  if (op == "%" && a.is_string()) return printf_format(interpreter, a, b);
  unsupported(op, a, b);
}

Value negate(const Value& v) {
  if (v.is_integral()) return checked(-static_cast<__int128>(v.as_int()));
  if (v.is_number()) return Value::number(-v.as_double());
  if (v.is_undefined()) undefined_error(v);
  fault("bad operand type for unary -: '", type_name(v), "'");
}

Value unary_plus(const Value& v) {
  if (v.is_integral()) return Value::integer(v.as_int());
  if (v.is_number()) return v;
  if (v.is_undefined()) undefined_error(v);
  fault("bad operand type for unary +: '", type_name(v), "'");
}

bool contains(const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) fault("'in <string>' requires string as left operand, not ", type_name(item));
    charge(1 + container.str().size() / 8);
    return container.str().find(item.str()) != std::string::npos;
  }
  if (container.is_dict()) return container.as_dict().find(item) != nullptr;
  bool iterable = container.is_undefined() || container.is_sequence() || container.object_as<LoopObject>();
  if (!iterable) fault("argument of type '", type_name(container), "' is not iterable");
  Iterator items(container);
  while (auto candidate = items.next())
    if (equal(*candidate, item)) return true;
  return false;
}

bool compare_values(std::string_view op, const Value& a, const Value& b) {
  if (op == "==") return equal(a, b);
  if (op == "!=") return !equal(a, b);
  if (op == "in") return contains(b, a);
  if (op == "not in") return !contains(b, a);
  int order = compare(a, b, std::string(op).c_str());
  if (order == 2) return false;
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  if (op == ">") return order > 0;
  return order >= 0;
}

std::vector<Value> to_vector(const Value& iterable) {
  Iterator items(iterable);
  std::vector<Value> out;
  while (auto item = items.next()) {
    if (out.size() >= kMaxItems) check_items(out.size() + 1);
    out.push_back(std::move(*item));
  }
  return out;
}

std::optional<size_t> length_of(const Value& v) {
  if (v.is_undefined()) return 0;
  if (v.is_string()) return v.text().length;
  if (v.is_dict()) return v.as_dict().entries.size();
  if (v.is_sequence() && !v.is_sequence(SequenceKind::kGenerator)) return v.items().size();
  if (LoopObject* loop = v.object_as<LoopObject>()) return static_cast<size_t>(loop->length());
  return std::nullopt;
}

std::optional<Value> index_sequence(const Value& object, int64_t i) {
  SequenceKind kind = object.is_sequence() ? object.seq().kind : SequenceKind::kList;
  if (kind == SequenceKind::kGenerator || kind == SequenceKind::kKeys || kind == SequenceKind::kValues ||
      kind == SequenceKind::kItems)
    return std::nullopt;
  int64_t length = static_cast<int64_t>(*length_of(object));
  if (i < 0) i += length;
  if (i < 0 || i >= length) return std::nullopt;
  if (!object.is_string()) return object.items()[static_cast<size_t>(i)];
  const Text& text = object.text();
  if (text.single_byte()) return Value::string(text.bytes.substr(static_cast<size_t>(i), 1), text.markup);
  charge(static_cast<size_t>(i) / 8);
  size_t start = utf8_offset(text.bytes, static_cast<size_t>(i)), end = start;
  utf8_next(text.bytes, end);
  return Value::string(text.bytes.substr(start, end - start), text.markup);
}

namespace {

// The indices that a slice of a sequence of `length` takes.
std::vector<size_t> slice_indices(int64_t length, const SliceBounds& bounds) {
  int64_t step = bounds.step.value_or(1);
  if (step == 0) fault("slice step cannot be zero");
  auto clamp = [&](int64_t i) {
    if (i < 0) i = i < -length ? -1 : i + length;
    return step > 0 ? std::clamp<int64_t>(i, 0, length) : std::clamp<int64_t>(i, -1, length - 1);
  };
  auto resolve = [&](std::optional<int64_t> i, int64_t fallback) {
    if (!i) return fallback;
    return *i < -length ? (step > 0 ? int64_t{0} : int64_t{-1}) : clamp(*i);
  };
  int64_t start = resolve(bounds.start, step > 0 ? 0 : length - 1),
          stop = resolve(bounds.stop, step > 0 ? length : -1);
  std::vector<size_t> out;
  if (step > 0)
    for (int64_t i = start; i<stop; i = step> stop - i ? stop : i + step)
      out.push_back(static_cast<size_t>(i));
  else
    for (int64_t i = start; i > stop; i = step < stop - i ? stop : i + step)
      out.push_back(static_cast<size_t>(i));
  return out;
}

Value slice_text(const Text& text, const SliceBounds& bounds) {
  std::string out;
  if (text.single_byte()) {
    for (size_t i : slice_indices(static_cast<int64_t>(text.length), bounds)) out += text.bytes[i];
  } else {
    auto pieces = utf8_split(text.bytes);
    for (size_t i : slice_indices(static_cast<int64_t>(pieces.size()), bounds)) out += pieces[i];
  }
  return Value::string(std::move(out), text.markup);
}

}  // namespace

Value slice(const Value& object, const SliceBounds& bounds) {
  charge(*length_of(object) / 2);
  if (object.is_string()) return slice_text(object.text(), bounds);
  std::vector<Value> items;
  for (size_t i : slice_indices(static_cast<int64_t>(object.items().size()), bounds))
    items.push_back(object.items()[i]);
  SequenceKind kind = object.seq().kind;
  if (kind == SequenceKind::kGroup) kind = SequenceKind::kTuple;
  Value result = Value::sequence(kind, std::move(items));
  if (kind != SequenceKind::kRange) return result;
  const int64_t* from = object.seq().range;
  int64_t length = static_cast<int64_t>(object.items().size()), step = bounds.step.value_or(1);
  auto bound = [&](std::optional<int64_t> i, int64_t fallback) {
    int64_t k = i.value_or(fallback);
    if (i && k < 0) k += length;
    return from[0] +
           from[2] * (step > 0 ? std::clamp<int64_t>(k, 0, length) : std::clamp<int64_t>(k, -1, length - 1));
  };
  result.seq().range[0] = bound(bounds.start, step > 0 ? 0 : length - 1);
  result.seq().range[1] = bound(bounds.stop, step > 0 ? length : -1);
  if (__builtin_mul_overflow(from[2], step, &result.seq().range[2])) overflow();
  return result;
}

}  // namespace quaver::jinja
