#include "text/jinja/methods.h"

#include <algorithm>

#include "text/jinja/string_literal.h"

namespace quaver::jinja {
namespace {

bool among(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Methods that would change a list or dict: the sandbox hides them.
bool modifies(const Value& self, std::string_view name) {
  if (self.is_sequence(SequenceKind::kList))
    return among(name, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});
  return self.is_dict() && among(name, {"clear", "pop", "popitem", "setdefault", "update"});
}

Value hidden(const Value& self, std::string_view name) {
  return Value::undefined(
      cat("access to attribute ", string_repr(name), " of '", type_name(self), "' object is unsafe."));
}

Value loop_cycle(Interpreter&, const Value& self, Args& args) {
  return self.object_as<LoopObject>()->cycle(args);
}

Value loop_changed(Interpreter&, const Value& self, Args& args) {
  return Value::boolean(self.object_as<LoopObject>()->changed(args));
}

Value cycler_next(Interpreter&, const Value& self, Args&) { return self.object_as<CyclerObject>()->next(); }

Value cycler_reset(Interpreter&, const Value& self, Args&) {
  self.object_as<CyclerObject>()->reset();
  return Value();
}

Method find_object_method(const Value& self, std::string_view name) {
  if (self.object_as<LoopObject>()) {
    if (name == "cycle") return loop_cycle;
    if (name == "changed") return loop_changed;
  }
  if (self.object_as<CyclerObject>()) {
    if (name == "next") return cycler_next;
    if (name == "reset") return cycler_reset;
  }
  return nullptr;
}

std::optional<Value> number_attribute(const Value& self, std::string_view name) {
  if (name == "real") return self.is_integral() ? Value::integer(self.as_int()) : self;
  if (name == "imag") return self.is_integral() ? Value::integer(0) : Value::number(0);
  if (self.is_integral() && name == "numerator") return Value::integer(self.as_int());
  if (self.is_integral() && name == "denominator") return Value::integer(1);
  return std::nullopt;
}

std::optional<Value> sequence_attribute(const Value& self, std::string_view name) {
  const Sequence& s = self.seq();
  if (s.kind == SequenceKind::kGroup && name == "grouper") return s.items[0];
  if (s.kind == SequenceKind::kGroup && name == "list") return s.items[1];
  if (s.kind != SequenceKind::kRange) return std::nullopt;
  if (name == "start") return Value::integer(s.range[0]);
  if (name == "stop") return Value::integer(s.range[1]);
  if (name == "step") return Value::integer(s.range[2]);
  return std::nullopt;
}

}  // namespace

bool is_hidden_attribute(std::string_view name) {
  return among(name, {"__class__",     "__doc__",          "__init__",
                      "__new__",       "__dict__",         "__repr__",
                      "__str__",       "__hash__",         "__eq__",
                      "__ne__",        "__lt__",           "__le__",
                      "__gt__",        "__ge__",           "__getattribute__",
                      "__setattr__",   "__delattr__",      "__reduce__",
                      "__reduce_ex__", "__subclasshook__", "__init_subclass__",
                      "__format__",    "__sizeof__",       "__dir__"}) &&
         name != "__dict__";
}

bool is_hashable(const Value& v) {
  if (v.is_dict()) return false;
  if (!v.is_sequence()) return true;
  bool tuple = v.is_sequence(SequenceKind::kTuple) || v.is_sequence(SequenceKind::kGroup);
  return tuple && std::all_of(v.items().begin(), v.items().end(), is_hashable);
}

Method find_method(const Value& self, std::string_view name) {
  if (self.is_string()) {
    Method m = find_string_method(name);
    return m ? m : find_string_test_method(name);
  }
  if (self.is(Value::Kind::kObject)) return find_object_method(self, name);
  return find_container_method(self, name);
}

std::optional<Value> find_attribute(Interpreter& interpreter, const Value& self, std::string_view name) {
  if (is_hidden_attribute(name) || modifies(self, name)) return hidden(self, name);
  if (Method method = find_method(self, name))
    return interpreter.adopt(std::make_shared<BoundMethod>(std::string(name), self, method));
  if (self.is(Value::Kind::kObject)) return self.as_object().attribute(interpreter, name);
  if (self.is_number()) return number_attribute(self, name);
  if (self.is_sequence()) return sequence_attribute(self, name);
  return std::nullopt;
}

}  // namespace quaver::jinja
