// Statements: text, loops, branches, assignments, macros.
#include "text/jinja/interpreter.h"

#include <algorithm>

#include "text/jinja/objects.h"
#include "text/jinja/unicode.h"

namespace quaver::jinja {
namespace {

// Statement and expression levels inside each other, macro calls included; bounds the native stack.
constexpr int kMaxDepth = 1500;
constexpr size_t kMaxObjects = 300000;

}  // namespace

class Interpreter::DepthGuard {
 public:
  explicit DepthGuard(int& depth) : depth_(depth) {
    if (++depth_ <= kMaxDepth) return;
    --depth_;
    fault("maximum recursion depth exceeded");
  }
  ~DepthGuard() { --depth_; }

 private:
  int& depth_;
};

const Value* Scope::find_here(Symbol symbol) const {
  charge(1 + variables.size() / 8);
  for (const auto& [name, value] : variables)
    if (name == symbol) return &value;
  return nullptr;
}

void Scope::set(Symbol symbol, Value value) {
  charge(1 + variables.size() / 8);
  for (auto& [name, old] : variables)
    if (name == symbol) {
      old = std::move(value);
      return;
    }
  variables.emplace_back(symbol, std::move(value));
}

Iterator::Iterator(Value source) : source_(std::move(source)) {
  bool iterable = source_.is_undefined() || source_.is_string() || source_.is_sequence() ||
                  source_.is_dict() || source_.object_as<LoopObject>();
  if (!iterable) fault("'", type_name(source_), "' object is not iterable");
}

std::optional<Value> Iterator::next_item() {
  charge(1);
  if (source_.is_string()) {
    const std::string& s = source_.str();
    if (position_ >= s.size()) return std::nullopt;
    size_t start = position_;
    utf8_next(s, position_);
    return Value::string(s.substr(start, position_ - start), source_.text().markup);
  }
  if (source_.is_dict()) {
    const auto& entries = source_.as_dict().entries;
    return position_ < entries.size() ? std::optional(entries[position_++].first) : std::nullopt;
  }
  if (LoopObject* loop = source_.object_as<LoopObject>()) {
    if (!loop->advance()) return std::nullopt;
    return Value::tuple({loop->current(), source_});
  }
  if (!source_.is_sequence()) return std::nullopt;
  Sequence& seq = source_.seq();
  size_t& position = seq.kind == SequenceKind::kGenerator ? seq.consumed : position_;
  return position < seq.items.size() ? std::optional(seq.items[position++]) : std::nullopt;
}

std::optional<Value> Iterator::next() {
  while (true) {
    std::optional<Value> item = next_item();
    if (!item || !keep_ || keep_(*item)) return item;
  }
}

Interpreter::Interpreter(const Template& tree) : tree_(tree), root_(std::make_shared<Scope>()) {
  outer_budget_ = exchange_budget(&budget_);
  for (auto& [name, value] : global_functions(*this)) {
    // Only names the template mentions have a symbol.
    for (Symbol s = 0; s < static_cast<Symbol>(tree.symbols.size()); ++s)
      if (tree.symbols.name(s) == name) root_->set(s, value);
  }
}

Interpreter::~Interpreter() {
  for (auto& object : objects_) object->release();
  exchange_budget(outer_budget_);
}

Value Interpreter::adopt(std::shared_ptr<Object> object) {
  if (objects_.size() >= kMaxObjects) fault("the template makes more than ", kMaxObjects, " objects");
  charge(16);
  objects_.push_back(object);
  return Value::object(std::move(object));
}

std::string Interpreter::render() {
  std::string out;
  execute(tree_.body, root_, out);
  return out;
}

Flow Interpreter::execute(const Body& body, const ScopePtr& scope, std::string& out) {
  for (const StmtPtr& s : body) {
    Flow flow = execute(*s, scope, out);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Flow Interpreter::execute(const Stmt& s, const ScopePtr& scope, std::string& out) {
  DepthGuard guard(depth_);
  charge(1);
  line_ = s.line;
  switch (s.kind) {
    case StmtKind::kData:
      grow(out, s.text);
      break;
    case StmtKind::kPrint:
      for (const ExprPtr& e : s.exprs) grow(out, to_string(evaluate(*e, scope)));
      break;
    case StmtKind::kFor: {
      Value iterable = evaluate(*s.exprs[0], scope);
      execute_loop_body(s, iterable, scope, 0, out);
      break;
    }
    case StmtKind::kIf:
      return execute_if(s, scope, out);
    case StmtKind::kSet:
      execute_set(s, scope);
      break;
    case StmtKind::kSetBlock:
      return execute_set_block(s, scope);
    case StmtKind::kMacro:
      scope->set(s.symbol, make_macro(s, scope));
      break;
    case StmtKind::kCallBlock:
      execute_call_block(s, scope, out);
      break;
    case StmtKind::kFilterBlock:
      return execute_filter_block(s, scope, out);
    case StmtKind::kWith:
      return execute_with(s, scope, out);
    case StmtKind::kScope: {
      std::string inner;
      execute(s.body, std::make_shared<Scope>(Scope{scope, {}}), inner);
      grow(out, inner);
      break;
    }
    case StmtKind::kBlock:
      execute(s.body, std::make_shared<Scope>(Scope{root_, {}}), out);
      break;
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

Flow Interpreter::execute_if(const Stmt& s, const ScopePtr& scope, std::string& out) {
  for (size_t i = 0; i < s.branches.size(); ++i)
    if (truthy(evaluate(*s.exprs[i], scope))) return execute(s.branches[i], scope, out);
  return execute(s.otherwise, scope, out);
}

void Interpreter::execute_loop_body(const Stmt& loop, const Value& iterable, const ScopePtr& scope, int depth,
                                    std::string& out) {
  Iterator items(iterable);
  if (loop.exprs[1])
    items.filter([&loop, scope, this](const Value& item) {
      auto inner = std::make_shared<Scope>(Scope{scope, {}});
      assign(*loop.target, item, inner);
      return truthy(evaluate(*loop.exprs[1], inner));
    });
  std::shared_ptr<LoopObject> state;
  Value state_value;
  if (loop.uses_loop) {
    state =
        std::make_shared<LoopObject>(std::move(items), iterable, LoopObject::Recursion{&loop, scope, depth});
    state_value = adopt(state);
  }
  bool completed_once = false;  // a body left by break or continue does not keep `else` from running
  while (true) {
    std::optional<Value> item;
    if (!state)
      item = items.next();
    else if (state->advance())
      item = state->current();
    if (!item) break;
    auto inner = std::make_shared<Scope>(Scope{scope, {}});
    if (state) inner->set(kLoop, state_value);
    assign(*loop.target, *item, inner);
    Flow flow = execute(loop.body, inner, out);
    if (flow == Flow::kBreak) break;
    completed_once |= flow == Flow::kNormal;
  }
  if (!completed_once) execute(loop.otherwise, std::make_shared<Scope>(Scope{scope, {}}), out);
}

void Interpreter::execute_set(const Stmt& s, const ScopePtr& scope) {
  Value value = evaluate(*s.exprs[0], scope);
  assign(*s.target, value, scope);
}

Flow Interpreter::execute_set_block(const Stmt& s, const ScopePtr& scope) {
  std::string text;
  auto inner = std::make_shared<Scope>(Scope{scope, {}});
  Flow flow = execute(s.body, inner, text);
  if (flow != Flow::kNormal) return flow;
  Value value = s.exprs[0] ? evaluate_filter(*s.exprs[0], inner, &text) : Value::string(std::move(text));
  assign(*s.target, value, scope);
  return Flow::kNormal;
}

Flow Interpreter::execute_filter_block(const Stmt& s, const ScopePtr& scope, std::string& out) {
  std::string text;
  auto inner = std::make_shared<Scope>(Scope{scope, {}});
  Flow flow = execute(s.body, inner, text);
  if (flow != Flow::kNormal) return flow;
  grow(out, to_string(evaluate_filter(*s.exprs[0], inner, &text)));
  return Flow::kNormal;
}

void Interpreter::execute_call_block(const Stmt& s, const ScopePtr& scope, std::string& out) {
  Value caller = make_macro(s, scope);
  grow(out, to_string(evaluate_call(*s.exprs[0], scope, &caller)));
}

Flow Interpreter::execute_with(const Stmt& s, const ScopePtr& scope, std::string& out) {
  auto inner = std::make_shared<Scope>(Scope{scope, {}});
  std::vector<Value> values = evaluate_all(s.exprs, scope);
  for (size_t i = 0; i < s.targets.size(); ++i) assign(*s.targets[i], values[i], inner);
  return execute(s.body, inner, out);
}

void Interpreter::assign(const Expr& target, const Value& value, const ScopePtr& scope) {
  if (target.kind == ExprKind::kName) return scope->set(target.symbol, value);
  if (target.kind == ExprKind::kTuple) return assign_tuple(target, value, scope);
  Value object = lookup(target.symbol, scope);
  auto* ns = object.object_as<NamespaceObject>();
  if (!ns) fault("cannot assign attribute on non-namespace object");
  ns->set(target.name, value);
}

void Interpreter::assign_tuple(const Expr& target, const Value& value, const ScopePtr& scope) {
  Iterator items(value);
  size_t wanted = target.children.size(), got = 0;
  std::vector<Value> values;
  while (auto item = items.next()) {
    if (++got > wanted) fault("too many values to unpack (expected ", wanted, ")");
    values.push_back(std::move(*item));
  }
  if (got < wanted) fault("not enough values to unpack (expected ", wanted, ", got ", got, ")");
  for (size_t i = 0; i < wanted; ++i) assign(*target.children[i], values[i], scope);
}

Value Interpreter::make_macro(const Stmt& s, const ScopePtr& scope) {
  return adopt(std::make_shared<MacroObject>(s, scope));
}

std::string Interpreter::execute_macro(const Stmt& macro, const ScopePtr& scope) {
  std::string out;
  execute(macro.body, scope, out);
  return out;
}

}  // namespace quaver::jinja
