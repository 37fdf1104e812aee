// The host objects that a template can hold: functions, macros, loops, namespaces, cyclers.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/interpreter.h"

namespace quaver::jinja {

using NativeFunction = Value (*)(Interpreter&, Args&);
using Method = Value (*)(Interpreter&, const Value& self, Args&);

class FunctionObject : public Object {
 public:
  FunctionObject(std::string name, NativeFunction function) : name_(std::move(name)), function_(function) {}
  std::string type_name() const override { return "function"; }
  std::string repr(Interpreter&) override { return "<function " + name_ + ">"; }
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, Args& args) override { return function_(interpreter, args); }
  void release() override {}

 private:
  std::string name_;
  NativeFunction function_;
};

class BoundMethod : public Object {
 public:
  BoundMethod(std::string name, Value self, Method method)
      : name_(std::move(name)), self_(std::move(self)), method_(method) {}
  std::string type_name() const override { return "builtin_function_or_method"; }
  std::string repr(Interpreter&) override;
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, Args& args) override { return method_(interpreter, self_, args); }
  void release() override { self_ = Value(); }

 private:
  std::string name_;
  Value self_;
  Method method_;
};

class NamespaceObject : public Object {
 public:
  std::string type_name() const override { return "namespace"; }
  std::string repr(Interpreter& interpreter) override;
  std::optional<Value> attribute(Interpreter&, std::string_view name) override;
  void release() override { attributes_ = {}; }
  // Throws Fault on a name with an underscore in front.
  void set(const std::string& name, Value value);

 private:
  std::vector<std::pair<std::string, Value>> attributes_;
};

// The variable `loop`; also what drives an extended loop.
class LoopObject : public Object {
 public:
  struct Recursion {
    const Stmt* loop;
    ScopePtr scope;  // around the loop
    int depth0;
  };
  LoopObject(Iterator items, Value iterable, Recursion recursion)
      : items_(std::move(items)), iterable_(std::move(iterable)), recursion_(std::move(recursion)) {}
  std::string type_name() const override { return "LoopContext"; }
  std::string repr(Interpreter&) override;
  std::optional<Value> attribute(Interpreter&, std::string_view name) override;
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, Args& args) override;
  void release() override;

  bool advance();  // to the next item; false at the end
  const Value& current() const { return current_; }
  int64_t length();
  Value cycle(Args& args) const;
  bool changed(Args& args);

 private:
  bool peek();
  Iterator items_;
  Value iterable_, current_, before_;
  Recursion recursion_;
  std::deque<Value> ahead_;  // taken from items_, not yet current
  std::optional<int64_t> length_;
  std::optional<Value> last_changed_;
  int64_t index0_ = -1;
};

class MacroObject : public Object {
 public:
  MacroObject(const Stmt& definition, ScopePtr scope) : definition_(&definition), scope_(std::move(scope)) {}
  std::string type_name() const override { return "Macro"; }
  std::string repr(Interpreter& interpreter) override;
  std::optional<Value> attribute(Interpreter& interpreter, std::string_view name) override;
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, Args& args) override;
  void release() override { scope_.reset(); }

 private:
  std::string name(Interpreter& interpreter) const;
  void bind(Interpreter& interpreter, Args& args, const ScopePtr& inner) const;
  void check_keywords(Interpreter& interpreter, const Args& args) const;
  const Stmt* definition_;
  ScopePtr scope_;
};

class CyclerObject : public Object {
 public:
  explicit CyclerObject(std::vector<Value> items) : items_(std::move(items)) {}
  std::string type_name() const override { return "Cycler"; }
  std::string repr(Interpreter&) override { return "<Cycler object>"; }
  std::optional<Value> attribute(Interpreter&, std::string_view name) override;
  void release() override { items_.clear(); }
  Value next();
  void reset() { position_ = 0; }

 private:
  std::vector<Value> items_;
  size_t position_ = 0;
};

class JoinerObject : public Object {
 public:
  explicit JoinerObject(Value separator) : separator_(std::move(separator)) {}
  std::string type_name() const override { return "Joiner"; }
  std::string repr(Interpreter&) override { return "<Joiner object>"; }
  bool callable() const override { return true; }
  Value call(Interpreter&, Args& args) override;
  void release() override { separator_ = Value(); }

 private:
  Value separator_;
  bool used_ = false;
};

// range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
std::vector<std::pair<std::string, Value>> global_functions(Interpreter& interpreter);

}  // namespace quaver::jinja
