// The syntax tree of a template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace quaver::jinja {

using Symbol = int;  // a variable's number in SymbolTable

// Variables the language itself knows, in the order SymbolTable gives them.
enum KnownSymbol : Symbol { kLoop, kCaller, kVarargs, kKwargs };

class SymbolTable {
 public:
  SymbolTable() {
    for (const char* name : {"loop", "caller", "varargs", "kwargs"}) intern(name);
  }
  Symbol intern(const std::string& name) {
    auto [it, inserted] = ids_.try_emplace(name, static_cast<Symbol>(names_.size()));
    if (inserted) names_.push_back(name);
    return it->second;
  }
  const std::string& name(Symbol symbol) const { return names_[static_cast<size_t>(symbol)]; }
  size_t size() const { return names_.size(); }

 private:
  std::unordered_map<std::string, Symbol> ids_;
  std::vector<std::string> names_;
};

enum class ExprKind : unsigned char {
  kConst,      // value
  kName,       // symbol
  kNamespace,  // symbol . name, as an assignment target only
  kTuple,      // children
  kList,
  kDict,     // children: key, value, key, value ...
  kGetattr,  // children[0] . name
  kGetitem,  // children[0] [children[1]]
  kSlice,    // children: start, stop, step; each may be null
  kCall,     // children[0] (call)
  kFilter,   // children[0] | name (call); children[0] is null in filter blocks
  kTest,     // children[0] is name (call)
  kNot,
  kNegate,
  kPlus,
  kBinary,  // children[0] name children[1]
  kAnd,
  kOr,
  kCompare,    // children[0] operators[0] children[1] operators[1] children[2] ...
  kConcat,     // children
  kCondition,  // children: value, test, otherwise (may be null)
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> keyword;
  ExprPtr star, double_star;
};

struct Expr {
  ExprKind kind;
  int line = 1, column = 1;
  int depth = 1;  // bounds the recursion of everything that walks the tree
  Symbol symbol = -1;
  std::string name;
  Value value;
  std::vector<ExprPtr> children;
  std::vector<std::string> operators;
  std::unique_ptr<CallArguments> call;
};

enum class StmtKind : unsigned char {
  kData,         // text
  kPrint,        // exprs
  kFor,          // target, exprs[0] the iterable, exprs[1] the filter or null; body, otherwise
  kIf,           // branches[i] when exprs[i]; otherwise
  kSet,          // target = exprs[0]
  kSetBlock,     // target = body, through the filter exprs[0] if any
  kMacro,        // symbol, parameters, defaults; body
  kCallBlock,    // exprs[0] the call; parameters, defaults; body
  kFilterBlock,  // exprs[0]; body
  kWith,         // targets = exprs; body
  kScope,        // body in a scope of its own: generation
  kBlock,        // body in a scope below the outermost one
  kBreak,
  kContinue,
};

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

struct Stmt {
  StmtKind kind;
  int line = 1, column = 1;
  std::string text;
  Symbol symbol = -1;
  ExprPtr target;
  std::vector<ExprPtr> exprs, targets;
  Body body, otherwise;
  std::vector<Body> branches;
  std::vector<Symbol> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  bool recursive = false;
  // Filled by analyze(): whether the body reads the special variables of loops and macros.
  bool uses_loop = false, uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

struct Template {
  SymbolTable symbols;
  Body body;
};

// What nests deeper than these is refused.
inline constexpr int kMaxExprDepth = 200;
inline constexpr int kMaxStmtDepth = 60;

}  // namespace quaver::jinja
