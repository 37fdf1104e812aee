// Builds the tree of a template from its tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace quaver::jinja {

// Throws SyntaxError, with the messages of Jinja2.
Template parse(std::string_view source);

// Checks what the grammar cannot: filters and tests exist, break stands in a loop, nobody assigns to `loop`.
// Fills the uses_ fields. Throws SyntaxError.
void analyze(Template& tree);

// The token stream both halves of the parser share.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  const Token& current() const { return tokens_[pos_]; }
  const Token& look() const { return tokens_[std::min(pos_ + 1, tokens_.size() - 1)]; }
  const Token& next() {
    const Token& token = tokens_[pos_];
    if (pos_ + 1 < tokens_.size()) ++pos_;
    return token;
  }
  bool skip_name(std::string_view name);
  bool skip_op(std::string_view op);
  const Token& expect(TokenKind kind);
  const Token& expect_name(std::string_view name);
  const Token& expect_op(std::string_view op);
  [[noreturn]] void fail(std::string message, const Token& at) const;

 private:
  [[noreturn]] void unexpected(std::string_view expected) const;
  std::vector<Token> tokens_;
  size_t pos_ = 0;
};

// Expressions, by Jinja's precedence: if, or, and, not, comparisons, + -, ~, * / // %, **, unary, postfix,
// filter.
class ExprParser {
 public:
  ExprParser(TokenStream& stream, SymbolTable& symbols) : stream_(stream), symbols_(symbols) {}

  ExprPtr expression(bool with_condition = true);
  struct TupleRules {
    bool with_condition = true;
    bool parenthesized = false;      // an empty tuple is fine
    bool target = false;             // names only, as in "for a, b in"
    bool with_namespace = false;     // and "ns.name"
    std::string_view end_name = {};  // a name that ends it
  };
  ExprPtr tuple(const TupleRules& rules);
  ExprPtr assign_target(bool with_namespace = false, std::string_view end_name = {});
  Symbol name_target();
  ExprPtr filter(ExprPtr input, bool inline_start);

 private:
  ExprPtr condition();
  ExprPtr logical_or();
  ExprPtr logical_and();
  ExprPtr logical_not();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filter = true);
  ExprPtr primary(bool with_namespace = false);
  ExprPtr name_or_constant(bool with_namespace);
  ExprPtr number();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr node);
  ExprPtr filters_and_tests(ExprPtr node);
  ExprPtr subscript(ExprPtr node);
  ExprPtr subscript_argument();
  ExprPtr call(ExprPtr callee);
  ExprPtr test(ExprPtr node);
  std::unique_ptr<CallArguments> arguments();
  void argument(CallArguments& args, const Token& open);
  std::string dotted_name();
  ExprPtr make(ExprKind kind, const Token& at) const;
  ExprPtr make(ExprKind kind, const Token& at, ExprPtr a, ExprPtr b = nullptr) const;
  void adopt(Expr& parent, ExprPtr child) const;
  bool tuple_ends(const TupleRules& rules) const;

  TokenStream& stream_;
  SymbolTable& symbols_;
  int nesting_ = 0;
};

}  // namespace quaver::jinja
