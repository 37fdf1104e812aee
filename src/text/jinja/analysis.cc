// The checks on a parsed template that the grammar cannot make.
#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/parser.h"
#include "text/jinja/tests.h"

namespace quaver::jinja {
namespace {

// What a part of the tree reads.
struct Uses {
  bool loop = false, caller = false, varargs = false, kwargs = false;
  void note(Symbol s) {
    loop |= s == kLoop;
    caller |= s == kCaller;
    varargs |= s == kVarargs;
    kwargs |= s == kKwargs;
  }
  void merge(const Uses& other) {
    loop |= other.loop;
    caller |= other.caller;
    varargs |= other.varargs;
    kwargs |= other.kwargs;
  }
};

// Where a statement stands. Filters that do not exist are an error at once, unless an `if` might avoid them.
struct Place {
  bool soft = false, in_loop = false, in_for = false;
};

class Analyzer {
 public:
  Uses body(Body& statements, const Place& place) {
    Uses uses;
    for (StmtPtr& s : statements) uses.merge(statement(*s, place));
    return uses;
  }

 private:
  [[noreturn]] static void fail(std::string message, const Expr& at) {
    throw SyntaxError{std::move(message), at.line, at.column};
  }

  Uses expr(const Expr* e, bool soft) {
    Uses uses;
    if (!e) return uses;
    if (e->kind == ExprKind::kName) uses.note(e->symbol);
    if (e->kind == ExprKind::kFilter && !soft && !find_filter(e->name))
      fail(cat("No filter named '", e->name, "'."), *e);
    if (e->kind == ExprKind::kTest && !soft && !find_test(e->name))
      fail(cat("No test named '", e->name, "'."), *e);
    soft |= e->kind == ExprKind::kCondition;
    for (const ExprPtr& child : e->children) uses.merge(expr(child.get(), soft));
    if (e->call) uses.merge(arguments(*e->call, soft));
    return uses;
  }

  Uses arguments(const CallArguments& call, bool soft) {
    Uses uses;
    for (const ExprPtr& e : call.positional) uses.merge(expr(e.get(), soft));
    for (const auto& [name, e] : call.keyword) uses.merge(expr(e.get(), soft));
    uses.merge(expr(call.star.get(), soft));
    uses.merge(expr(call.double_star.get(), soft));
    return uses;
  }

  Uses exprs(const std::vector<ExprPtr>& list, bool soft) {
    Uses uses;
    for (const ExprPtr& e : list) uses.merge(expr(e.get(), soft));
    return uses;
  }

  void check_target(const Expr* target, const Place& place) {
    if (!target) return;
    if (place.in_for && target->kind == ExprKind::kName && target->symbol == kLoop)
      fail("Can't assign to special loop variable in for-loop target", *target);
    for (const ExprPtr& child : target->children) check_target(child.get(), place);
  }

  Uses statement(Stmt& s, const Place& place) {
    switch (s.kind) {
      case StmtKind::kFor:
        return for_loop(s, place);
      case StmtKind::kIf:
        return if_branches(s, place);
      case StmtKind::kMacro:
      case StmtKind::kCallBlock:
        return macro(s, place);
      case StmtKind::kBreak:
      case StmtKind::kContinue:
        if (!place.in_loop)
          throw SyntaxError{
              s.kind == StmtKind::kBreak ? "'break' outside loop" : "'continue' not properly in loop", s.line,
              s.column};
        return {};
      default:
        return simple(s, place);
    }
  }

  Uses simple(Stmt& s, const Place& place) {
    check_target(s.target.get(), place);
    for (const ExprPtr& target : s.targets) check_target(target.get(), place);
    bool scoped = s.kind != StmtKind::kSet && s.kind != StmtKind::kPrint;
    Uses uses = exprs(s.exprs, place.soft && !scoped);
    bool function = s.kind == StmtKind::kScope || s.kind == StmtKind::kBlock;
    uses.merge(body(s.body, {.in_loop = place.in_loop && !function, .in_for = place.in_for}));
    return uses;
  }

  Uses if_branches(Stmt& s, const Place& place) {
    Place soft = place;
    soft.soft = true;
    Uses uses = exprs(s.exprs, true);
    for (Body& branch : s.branches) uses.merge(body(branch, soft));
    uses.merge(body(s.otherwise, soft));
    return uses;
  }

  Uses for_loop(Stmt& s, const Place& place) {
    Place inside{.in_loop = true, .in_for = true};
    check_target(s.target.get(), inside);
    Uses uses = expr(s.exprs[0].get(), place.soft);
    uses.merge(expr(s.exprs[1].get(), false));
    Uses in_body = body(s.body, inside);
    s.uses_loop = in_body.loop || s.recursive;
    uses.merge(in_body);
    uses.merge(body(s.otherwise, {.in_loop = place.in_loop, .in_for = true}));
    return uses;
  }

  Uses macro(Stmt& s, const Place& place) {
    Uses uses = exprs(s.exprs, place.soft);
    uses.merge(exprs(s.defaults, false));
    Uses in_body = body(s.body, {.in_for = place.in_for});
    auto is_parameter = [&](Symbol p) {
      return std::find(s.parameters.begin(), s.parameters.end(), p) != s.parameters.end();
    };
    s.uses_caller = in_body.caller && !is_parameter(kCaller);
    s.uses_varargs = in_body.varargs && !is_parameter(kVarargs);
    s.uses_kwargs = in_body.kwargs && !is_parameter(kKwargs);
    check_caller(s, in_body);
    uses.merge(in_body);
    return uses;
  }

  // "caller" as a parameter needs a default.
  void check_caller(const Stmt& s, const Uses& in_body) const {
    for (size_t i = 0; i < s.parameters.size(); ++i)
      if (in_body.caller && s.parameters[i] == kCaller && i + s.defaults.size() < s.parameters.size())
        throw SyntaxError{
            "When defining macros or call blocks the special \"caller\" argument must be omitted or be given "
            "a default.",
            s.line, s.column};
  }
};

}  // namespace

void analyze(Template& tree) { Analyzer().body(tree.body, {}); }

}  // namespace quaver::jinja
