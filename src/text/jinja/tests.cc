#include "text/jinja/tests.h"

#include "text/jinja/args.h"
#include "text/jinja/filters.h"
#include "text/jinja/methods.h"

namespace quaver::jinja {
namespace {

// The value of a test that takes no arguments.
Value alone(Args& args) { return Bound(args, "test", {"value"}, 1).at(0); }

template <bool (Value::*Is)() const>
bool is(Interpreter&, Args& args) {
  return (alone(args).*Is)();
}

template <Value::Kind Kind>
bool is_kind(Interpreter&, Args& args) {
  return alone(args).is(Kind);
}

template <bool Wanted>
bool is_bool(Interpreter&, Args& args) {
  Value v = alone(args);
  return v.is(Value::Kind::kBool) && v.as_bool() == Wanted;
}

bool remainder_is(Interpreter& interpreter, const Value& v, const Value& divisor, int64_t wanted) {
  return equal(binary(interpreter, "%", v, divisor), Value::integer(wanted));
}

bool odd(Interpreter& i, Args& args) { return remainder_is(i, alone(args), Value::integer(2), 1); }
bool even(Interpreter& i, Args& args) { return remainder_is(i, alone(args), Value::integer(2), 0); }
bool divisible_by(Interpreter& i, Args& args) {
  Bound a(args, "divisibleby", {"value", "num"}, 2);
  return remainder_is(i, a.at(0), a.at(1), 0);
}

bool defined(Interpreter&, Args& args) { return !alone(args).is_undefined(); }

bool filter_exists(Interpreter&, Args& args) {
  Value v = alone(args);
  return v.is_string() && find_filter(v.str());
}

bool test_exists(Interpreter&, Args& args) {
  Value v = alone(args);
  return v.is_string() && find_test(v.str());
}

template <bool Upper>
bool is_case(Interpreter& interpreter, Args& args) {
  Value text = Value::string(interpreter.to_string(alone(args)));
  Args none;
  return truthy(find_string_test_method(Upper ? "isupper" : "islower")(interpreter, text, none));
}

bool is_sequence(Interpreter&, Args& args) {
  Value v = alone(args);
  if (!v.is_sequence()) return v.is_string() || v.is_dict() || v.is_undefined();
  SequenceKind k = v.seq().kind;
  return k == SequenceKind::kList || k == SequenceKind::kTuple || k == SequenceKind::kGroup ||
         k == SequenceKind::kRange;
}

bool is_iterable(Interpreter&, Args& args) {
  Value v = alone(args);
  return v.is_undefined() || v.is_string() || v.is_sequence() || v.is_dict() || v.object_as<LoopObject>();
}

bool is_callable(Interpreter&, Args& args) {
  Value v = alone(args);
  return v.is_undefined() || (v.is(Value::Kind::kObject) && v.as_object().callable());
}

bool same_as(Interpreter&, Args& args) {
  Bound a(args, "sameas", {"value", "other"}, 2);
  return a.at(0).same_as(a.at(1));
}

bool escaped(Interpreter&, Args& args) {
  Value v = alone(args);
  return v.is_string() && v.text().markup;
}

struct Operator {
  std::string_view test, op;
};

constexpr Operator kOperators[] = {
    {"==", "=="},      {"eq", "=="},         {"equalto", "=="}, {"!=", "!="}, {"ne", "!="}, {">", ">"},
    {"gt", ">"},       {"greaterthan", ">"}, {">=", ">="},      {"ge", ">="}, {"<", "<"},   {"lt", "<"},
    {"lessthan", "<"}, {"<=", "<="},         {"le", "<="},      {"in", "in"},
};

template <size_t I>
bool operate(Interpreter&, Args& args) {
  Bound a(args, "test", {"a", "b"}, 2);
  return compare_values(kOperators[I].op, a.at(0), a.at(1));
}

template <size_t... I>
Test find_operator(std::string_view name, std::index_sequence<I...>) {
  Test found = nullptr;
  ((kOperators[I].test == name ? void(found = operate<I>) : void()), ...);
  return found;
}

struct Row {
  std::string_view name;
  Test test;
};

constexpr Row kTests[] = {
    {"odd", odd},
    {"even", even},
    {"divisibleby", divisible_by},
    {"defined", defined},
    {"undefined", is<&Value::is_undefined>},
    {"filter", filter_exists},
    {"test", test_exists},
    {"none", is<&Value::is_none>},
    {"boolean", is_kind<Value::Kind::kBool>},
    {"false", is_bool<false>},
    {"true", is_bool<true>},
    {"integer", is_kind<Value::Kind::kInt>},
    {"float", is_kind<Value::Kind::kFloat>},
    {"lower", is_case<false>},
    {"upper", is_case<true>},
    {"string", is<&Value::is_string>},
    {"mapping", is<&Value::is_dict>},
    {"number", is<&Value::is_number>},
    {"sequence", is_sequence},
    {"iterable", is_iterable},
    {"callable", is_callable},
    {"sameas", same_as},
    {"escaped", escaped},
};

}  // namespace

Test find_test(std::string_view name) {
  for (const Row& row : kTests)
    if (row.name == name) return row.test;
  return find_operator(name, std::make_index_sequence<std::size(kOperators)>());
}

}  // namespace quaver::jinja
