// Cuts template source into tokens, with Jinja's whitespace control.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quaver::jinja {

enum class TokenKind : unsigned char {
  kData,
  kBlockBegin,
  kBlockEnd,
  kVariableBegin,
  kVariableEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;  // data, name, unescaped string, digits without underscores, or the operator's spelling
  int line = 1, column = 1;
  bool is(TokenKind k, std::string_view t) const { return kind == k && text == t; }
  bool is_op(std::string_view t) const { return is(TokenKind::kOperator, t); }
  bool is_name(std::string_view t) const { return is(TokenKind::kName, t); }
};

// A mistake in the template, found before it is rendered.
struct SyntaxError {
  std::string message;
  int line = 1, column = 1;
};

// As a lexer with trim_blocks and lstrip_blocks set. Throws SyntaxError.
std::vector<Token> tokenize(std::string_view source);

// "end of statement block" and the like, as Jinja words it.
std::string describe(const Token& token);

}  // namespace quaver::jinja
