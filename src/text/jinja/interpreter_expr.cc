// Expressions.
#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/objects.h"
#include "text/jinja/string_literal.h"
#include "text/jinja/tests.h"

namespace quaver::jinja {
namespace {

constexpr int kMaxEvaluations = 1500;

struct Nesting {
  explicit Nesting(int& depth) : depth_(depth) {
    if (++depth_ <= kMaxEvaluations) return;
    --depth_;
    fault("maximum recursion depth exceeded");
  }
  ~Nesting() { --depth_; }
  int& depth_;
};

}  // namespace

Value Interpreter::lookup(Symbol symbol, const ScopePtr& scope) {
  for (const Scope* s = scope.get(); s; s = s->parent.get())
    if (const Value* v = s->find_here(symbol)) return *v;
  return Value::undefined(cat("'", symbols().name(symbol), "' is undefined"));
}

std::vector<Value> Interpreter::evaluate_all(const std::vector<ExprPtr>& exprs, const ScopePtr& scope) {
  std::vector<Value> values;
  values.reserve(exprs.size());
  for (const ExprPtr& e : exprs) values.push_back(evaluate(*e, scope));
  return values;
}

Value Interpreter::evaluate(const Expr& e, const ScopePtr& scope) {
  Nesting nesting(depth_);
  charge(1);
  line_ = e.line;
  auto child = [&](size_t i) { return evaluate(*e.children[i], scope); };
  switch (e.kind) {
    case ExprKind::kConst:
      return e.value;
    case ExprKind::kNamespace:
    case ExprKind::kName:
      return lookup(e.symbol, scope);
    case ExprKind::kTuple:
      return Value::tuple(evaluate_all(e.children, scope));
    case ExprKind::kList:
      return Value::list(evaluate_all(e.children, scope));
    case ExprKind::kDict:
      return evaluate_dict(e, scope);
    case ExprKind::kGetattr:
      return getattr(child(0), e.name);
    case ExprKind::kGetitem: {
      Value object = child(0);
      if (e.children[1]->kind == ExprKind::kSlice) return evaluate_slice_of(object, *e.children[1], scope);
      return getitem(object, child(1));
    }
    case ExprKind::kSlice:
      fault("a slice stands outside a plain subscript");
    case ExprKind::kCall:
      return evaluate_call(e, scope);
    case ExprKind::kFilter:
      return evaluate_filter(e, scope);
    case ExprKind::kTest: {
      Args args{.positional = {child(0)}};
      evaluate_arguments(*e.call, scope, args);
      Test test = find_test(e.name);
      if (!test) fault("No test named '", e.name, "' found.");
      return Value::boolean(test(*this, args));
    }
    case ExprKind::kNot:
      return Value::boolean(!truthy(child(0)));
    case ExprKind::kNegate:
      return negate(child(0));
    case ExprKind::kPlus:
      return unary_plus(child(0));
    case ExprKind::kBinary: {
      Value left = child(0);
      return binary(*this, e.name, left, child(1));
    }
    case ExprKind::kAnd: {
      Value left = child(0);
      return truthy(left) ? child(1) : left;
    }
    case ExprKind::kOr: {
      Value left = child(0);
      return truthy(left) ? left : child(1);
    }
    case ExprKind::kCompare:
      return evaluate_compare(e, scope);
    case ExprKind::kConcat:
      return evaluate_concat(e, scope);
    case ExprKind::kCondition:
      return evaluate_condition(e, scope);
  }
  return Value();
}

Value Interpreter::evaluate_dict(const Expr& e, const ScopePtr& scope) {
  auto dict = std::make_shared<Dict>();
  for (size_t i = 0; i < e.children.size(); i += 2) {
    Value key = evaluate(*e.children[i], scope);
    dict->set(key, evaluate(*e.children[i + 1], scope));
  }
  return Value::dict(std::move(dict));
}

Value Interpreter::evaluate_concat(const Expr& e, const ScopePtr& scope) {
  std::string out;
  for (const Value& v : evaluate_all(e.children, scope)) grow(out, to_string(v));
  return Value::string(std::move(out));
}

Value Interpreter::evaluate_condition(const Expr& e, const ScopePtr& scope) {
  if (truthy(evaluate(*e.children[1], scope))) return evaluate(*e.children[0], scope);
  if (e.children[2]) return evaluate(*e.children[2], scope);
  return Value::undefined(cat("the inline if-expression on line ", e.line,
                              " evaluated to false and no else section was defined."));
}

Value Interpreter::evaluate_compare(const Expr& e, const ScopePtr& scope) {
  Value left = evaluate(*e.children[0], scope);
  for (size_t i = 0; i < e.operators.size(); ++i) {
    Value right = evaluate(*e.children[i + 1], scope);
    if (!compare_values(e.operators[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::evaluate_slice_of(const Value& object, const Expr& e, const ScopePtr& scope) {
  std::vector<Value> parts;
  for (const ExprPtr& part : e.children) parts.push_back(part ? evaluate(*part, scope) : Value());
  if (object.is_undefined()) undefined_error(object);
  auto is_bound = [](const Value& v) { return v.is_none() || v.is_integral(); };
  bool sliceable = object.is_string() || object.is_sequence(SequenceKind::kList) ||
                   object.is_sequence(SequenceKind::kTuple) || object.is_sequence(SequenceKind::kRange) ||
                   object.is_sequence(SequenceKind::kGroup);
  if (!sliceable || !std::all_of(parts.begin(), parts.end(), is_bound))
    return Value::undefined(cat(object_type_repr(object), " has no element slice(", repr(parts[0]), ", ",
                                repr(parts[1]), ", ", repr(parts[2]), ")"));
  auto bound = [](const Value& v) { return v.is_none() ? std::nullopt : std::optional(v.as_int()); };
  return slice(object, {bound(parts[0]), bound(parts[1]), bound(parts[2])});
}

void Interpreter::evaluate_arguments(const CallArguments& call, const ScopePtr& scope, Args& args) {
  for (const ExprPtr& e : call.positional) args.positional.push_back(evaluate(*e, scope));
  if (call.star)
    for (Value& v : to_vector(evaluate(*call.star, scope))) args.positional.push_back(std::move(v));
  auto add = [&](const std::string& name, Value value) {
    for (const auto& [existing, unused] : args.keyword)
      if (existing == name) fault("got multiple values for keyword argument '", name, "'");
    args.keyword.emplace_back(name, std::move(value));
  };
  for (const auto& [name, e] : call.keyword) add(name, evaluate(*e, scope));
  if (!call.double_star) return;
  Value extra = evaluate(*call.double_star, scope);
  if (!extra.is_dict()) fault("argument after ** must be a mapping, not ", type_name(extra));
  for (const auto& [key, value] : extra.as_dict().entries) {
    if (!key.is_string()) fault("keywords must be strings");
    add(key.str(), value);
  }
}

Value Interpreter::evaluate_call(const Expr& e, const ScopePtr& scope, const Value* caller) {
  const Expr& callee = *e.children[0];
  Args args;
  auto finish_arguments = [&] {
    evaluate_arguments(*e.call, scope, args);
    if (caller) args.keyword.emplace_back("caller", *caller);
    line_ = e.line;
  };
  if (callee.kind == ExprKind::kGetattr) {
    // A method of a built-in type is called without making an object for it.
    Value self = evaluate(*callee.children[0], scope);
    if (Method method = find_method(self, callee.name)) {
      finish_arguments();
      return method(*this, self, args);
    }
    Value function = getattr(self, callee.name);
    finish_arguments();
    return call(function, args);
  }
  Value function = evaluate(callee, scope);
  finish_arguments();
  return call(function, args);
}

Value Interpreter::call(const Value& callee, Args& args) {
  if (callee.is_undefined()) undefined_error(callee);
  if (!callee.is(Value::Kind::kObject)) fault("'", type_name(callee), "' object is not callable");
  return callee.as_object().call(*this, args);
}

Value Interpreter::evaluate_filter(const Expr& e, const ScopePtr& scope, const std::string* block) {
  Args args;
  if (e.children[0]) {
    bool chained = e.children[0]->kind == ExprKind::kFilter;
    args.positional.push_back(chained ? evaluate_filter(*e.children[0], scope, block)
                                      : evaluate(*e.children[0], scope));
  } else {
    args.positional.push_back(Value::string(block ? *block : ""));
  }
  evaluate_arguments(*e.call, scope, args);
  line_ = e.line;
  Filter filter = find_filter(e.name);
  if (!filter) fault("No filter named '", e.name, "' found.");
  return filter(*this, args);
}

Value Interpreter::call_filter(const std::string& name, Args& args) {
  Filter filter = find_filter(name);
  if (!filter) fault("No filter named '", name, "'.");
  return filter(*this, args);
}

bool Interpreter::call_test(const std::string& name, Args& args) {
  Test test = find_test(name);
  if (!test) fault("No test named '", name, "'.");
  return test(*this, args);
}

Value Interpreter::getattr(const Value& object, std::string_view name) {
  if (object.is_undefined() && !is_hidden_attribute(name)) undefined_error(object);
  if (std::optional<Value> attribute = find_attribute(*this, object, name)) return *attribute;
  if (object.is_dict())
    if (const Value* v = object.as_dict().find(name)) return *v;
  return Value::undefined(cat("'", object_type_repr(object), "' has no attribute ", string_repr(name)));
}

Value Interpreter::getitem(const Value& object, const Value& key) {
  if (object.is_undefined()) undefined_error(object);
  if (key.is_integral() && (object.is_string() || object.is_sequence())) {
    if (auto item = index_sequence(object, key.as_int())) return *item;
  } else if (object.is_dict() && is_hashable(key)) {
    if (const Value* v = object.as_dict().find(key)) return *v;
  }
  if (!key.is_string()) return Value::undefined(cat(object_type_repr(object), " has no element ", repr(key)));
  if (std::optional<Value> attribute = find_attribute(*this, object, key.str())) return *attribute;
  return Value::undefined(cat("'", object_type_repr(object), "' has no attribute ", string_repr(key.str())));
}

std::string Interpreter::to_string(const Value& v) {
  if (v.is_string()) return v.str();
  if (v.is_undefined()) return "";
  return repr(v);
}

std::string Interpreter::repr(const Value& v) {
  std::string out;
  append_repr(out, v);
  return out;
}

namespace {

// The brackets around a sequence's items.
std::pair<const char*, const char*> brackets(const Sequence& s) {
  switch (s.kind) {
    case SequenceKind::kTuple:
    case SequenceKind::kGroup:
      return {"(", s.items.size() == 1 ? ",)" : ")"};
    case SequenceKind::kKeys:
      return {"dict_keys([", "])"};
    case SequenceKind::kValues:
      return {"dict_values([", "])"};
    case SequenceKind::kItems:
      return {"dict_items([", "])"};
    default:
      return {"[", "]"};
  }
}

std::string range_repr(const Sequence& s) {
  std::string step = s.range[2] == 1 ? "" : cat(", ", s.range[2]);
  return cat("range(", s.range[0], ", ", s.range[1], step, ")");
}

}  // namespace

void Interpreter::append_object_repr(std::string& out, Object& object) {
  if (repr_depth_ >= 50) fault("maximum recursion depth exceeded while getting the repr of an object");
  ++repr_depth_;
  std::string text = object.repr(*this);
  --repr_depth_;
  grow(out, text);
}

void Interpreter::append_repr(std::string& out, const Value& v) {
  charge(1);
  switch (v.kind()) {
    case Value::Kind::kUndefined:
      return grow(out, "Undefined");
    case Value::Kind::kNone:
      return grow(out, "None");
    case Value::Kind::kBool:
      return grow(out, v.as_bool() ? "True" : "False");
    case Value::Kind::kInt:
      return grow(out, cat(v.as_int()));
    case Value::Kind::kFloat:
      return grow(out, float_repr(v.as_double()));
    case Value::Kind::kString:
      return grow(out, v.text().markup ? cat("Markup(", string_repr(v.str()), ")") : string_repr(v.str()));
    case Value::Kind::kObject:
      return append_object_repr(out, v.as_object());
    case Value::Kind::kDict: {
      const char* separator = "{";
      if (v.as_dict().entries.empty()) grow(out, "{");
      for (const auto& [key, value] : v.as_dict().entries) {
        grow(out, std::exchange(separator, ", "));
        append_repr(out, key);
        grow(out, ": ");
        append_repr(out, value);
      }
      return grow(out, "}");
    }
    case Value::Kind::kSequence:
      break;
  }
  const Sequence& s = v.seq();
  if (s.kind == SequenceKind::kRange) return grow(out, range_repr(s));
  if (s.kind == SequenceKind::kGenerator) return grow(out, "<generator object>");
  auto [open, close] = brackets(s);
  grow(out, open);
  for (size_t i = 0; i < s.items.size(); ++i) {
    if (i) grow(out, ", ");
    append_repr(out, s.items[i]);
  }
  grow(out, close);
}

}  // namespace quaver::jinja
