// Runs a template: scopes, statements, expressions. One interpreter renders once.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/value.h"

namespace quaver::jinja {

// Variables of one block; names not found here are looked up in the parent.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<Symbol, Value>> variables;

  const Value* find_here(Symbol symbol) const;
  void set(Symbol symbol, Value value);
};
using ScopePtr = std::shared_ptr<Scope>;

enum class Flow : unsigned char { kNormal, kBreak, kContinue };

// Gives the items of any iterable one by one.
class Iterator {
 public:
  Iterator() = default;
  explicit Iterator(Value source);  // throws Fault "'int' object is not iterable"
  std::optional<Value> next();
  // Only the items that `keep` accepts, tested when they are due.
  void filter(std::function<bool(const Value&)> keep) { keep_ = std::move(keep); }
  bool filtered() const { return keep_ != nullptr; }

 private:
  std::optional<Value> next_item();
  Value source_;
  size_t position_ = 0;
  std::function<bool(const Value&)> keep_;
};

class Interpreter {
 public:
  explicit Interpreter(const Template& tree);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  void set_variable(Symbol symbol, Value value) { root_->set(symbol, std::move(value)); }
  std::string render();
  int line() const { return line_; }  // of the statement or expression last entered

  // Every object must pass through here.
  Value adopt(std::shared_ptr<Object> object);
  const SymbolTable& symbols() const { return tree_.symbols; }

  std::string to_string(const Value& v);  // str()
  std::string repr(const Value& v);       // repr()
  void append_repr(std::string& out, const Value& v);

  Value getattr(const Value& object, std::string_view name);
  Value getitem(const Value& object, const Value& key);
  Value call(const Value& callee, Args& args);
  // By a name that is only now known, as `map` and `select` have it.
  Value call_filter(const std::string& name, Args& args);
  bool call_test(const std::string& name, Args& args);

  // For loops and macros.
  void execute_loop_body(const Stmt& loop, const Value& iterable, const ScopePtr& scope, int depth,
                         std::string& out);
  std::string execute_macro(const Stmt& macro, const ScopePtr& scope);
  Value evaluate(const Expr& e, const ScopePtr& scope);

 private:
  class DepthGuard;

  Flow execute(const Body& body, const ScopePtr& scope, std::string& out);
  Flow execute(const Stmt& s, const ScopePtr& scope, std::string& out);
  Flow execute_if(const Stmt& s, const ScopePtr& scope, std::string& out);
  void execute_set(const Stmt& s, const ScopePtr& scope);
  Flow execute_set_block(const Stmt& s, const ScopePtr& scope);
  Flow execute_filter_block(const Stmt& s, const ScopePtr& scope, std::string& out);
  void execute_call_block(const Stmt& s, const ScopePtr& scope, std::string& out);
  Flow execute_with(const Stmt& s, const ScopePtr& scope, std::string& out);
  void assign(const Expr& target, const Value& value, const ScopePtr& scope);
  void assign_tuple(const Expr& target, const Value& value, const ScopePtr& scope);
  Value make_macro(const Stmt& s, const ScopePtr& scope);

  Value lookup(Symbol symbol, const ScopePtr& scope);
  Value evaluate_call(const Expr& e, const ScopePtr& scope, const Value* caller = nullptr);
  Value evaluate_filter(const Expr& e, const ScopePtr& scope, const std::string* block = nullptr);
  Value evaluate_compare(const Expr& e, const ScopePtr& scope);
  Value evaluate_slice_of(const Value& object, const Expr& slice, const ScopePtr& scope);
  Value evaluate_concat(const Expr& e, const ScopePtr& scope);
  Value evaluate_condition(const Expr& e, const ScopePtr& scope);
  Value evaluate_dict(const Expr& e, const ScopePtr& scope);
  void evaluate_arguments(const CallArguments& call, const ScopePtr& scope, Args& args);
  std::vector<Value> evaluate_all(const std::vector<ExprPtr>& exprs, const ScopePtr& scope);
  void append_object_repr(std::string& out, Object& object);

  const Template& tree_;
  ScopePtr root_;
  std::vector<std::shared_ptr<Object>> objects_;
  Budget budget_;
  Budget* outer_budget_;
  int depth_ = 0, repr_depth_ = 0, line_ = 1;
};

// Operators, in operators.cc. All throw Fault as Python words it.
Value binary(Interpreter& interpreter, std::string_view op, const Value& a, const Value& b);
Value negate(const Value& v);
Value unary_plus(const Value& v);
bool contains(const Value& container, const Value& item);  // item in container
bool compare_values(std::string_view op, const Value& a, const Value& b);
struct SliceBounds {
  std::optional<int64_t> start, stop, step;
};
Value slice(const Value& object, const SliceBounds& bounds);  // object: a string or an indexable sequence
std::optional<Value> index_sequence(const Value& object, int64_t i);
std::vector<Value> to_vector(const Value& iterable);
std::optional<size_t> length_of(const Value& v);  // nothing when Python's len() would refuse

}  // namespace quaver::jinja
