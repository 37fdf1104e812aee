// The statement half of the parser.
#include "text/jinja/parser.h"

#include <algorithm>

namespace quaver::jinja {

using enum TokenKind;

bool TokenStream::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  next();
  return true;
}

bool TokenStream::skip_op(std::string_view op) {
  if (!current().is_op(op)) return false;
  next();
  return true;
}

void TokenStream::fail(std::string message, const Token& at) const {
  throw SyntaxError{std::move(message), at.line, at.column};
}

void TokenStream::unexpected(std::string_view expected) const {
  if (current().kind == kEnd) fail(cat("unexpected end of template, expected '", expected, "'."), current());
  fail(cat("expected token '", expected, "', got '", describe(current()), "'"), current());
}

const Token& TokenStream::expect(TokenKind kind) {
  if (current().kind != kind) unexpected(kind == kName ? "name" : describe(Token{kind, ""}));
  return next();
}

const Token& TokenStream::expect_name(std::string_view name) {
  if (!current().is_name(name)) unexpected(name);
  return next();
}

const Token& TokenStream::expect_op(std::string_view op) {
  if (!current().is_op(op)) unexpected(op);
  return next();
}

namespace {

using Names = std::vector<std::string_view>;

std::string join_quoted(const Names& names) {
  std::string out;
  for (std::string_view name : names) out += cat(out.empty() ? "" : " or ", "'", name, "'");
  return out;
}

class Parser {
 public:
  Parser(std::string_view source, Template& tree) : stream_(tokenize(source)), expr_(stream_, tree.symbols) {}

  Body run() { return statements_until({}); }

 private:
  using Parse = StmtPtr (Parser::*)();
  struct Tag {
    std::string_view name;
    Parse parse;
  };
  static const Tag kTags[12];

  StmtPtr make(StmtKind kind, const Token& at) {
    auto s = std::make_unique<Stmt>();
    s->kind = kind;
    s->line = at.line;
    s->column = at.column;
    return s;
  }

  // Everything up to one of the end tags, whose name is then current; without any, to the end of the
  // template.
  Body statements_until(const Names& ends) {
    if (!ends.empty()) end_stack_.push_back(ends);
    if (end_stack_.size() > kMaxStmtDepth)
      stream_.fail(cat("blocks are nested deeper than ", kMaxStmtDepth, " levels"), stream_.current());
    Body body;
    while (stream_.current().kind != kEnd && !at_end_tag(ends)) body.push_back(piece());
    if (!ends.empty()) {
      if (stream_.current().kind == kEnd) tag_error(nullptr);
      end_stack_.pop_back();
    }
    return body;
  }

  // Steps into a block that holds one of `ends`.
  bool at_end_tag(const Names& ends) {
    if (stream_.current().kind != kBlockBegin || stream_.look().kind != kName) return false;
    if (std::find(ends.begin(), ends.end(), stream_.look().text) == ends.end()) return false;
    stream_.next();
    return true;
  }

  StmtPtr piece() {
    Token token = stream_.next();
    if (token.kind == kData) {
      StmtPtr data = make(StmtKind::kData, token);
      data->text = std::move(token.text);
      return data;
    }
    if (token.kind == kVariableBegin) {
      StmtPtr print = make(StmtKind::kPrint, token);
      print->exprs.push_back(expr_.tuple({}));
      stream_.expect(kVariableEnd);
      return print;
    }
    StmtPtr statement = tag();
    stream_.expect(kBlockEnd);
    return statement;
  }

  StmtPtr tag() {
    Token token = stream_.current();
    if (token.kind != kName) stream_.fail("tag name expected", token);
    static constexpr std::string_view kRefused[] = {"include", "import", "from", "extends", "autoescape"};
    for (const Tag& row : kTags) {
      if (row.name != token.text) continue;
      tag_stack_.push_back(token.text);
      StmtPtr statement = (this->*row.parse)();
      tag_stack_.pop_back();
      return statement;
    }
    if (std::find(std::begin(kRefused), std::end(kRefused), token.text) != std::end(kRefused))
      stream_.fail(cat("tag '", token.text, "' is not supported in chat templates"), token);
    tag_error(&token);
  }

  // An unknown tag, or (null) the end of the template inside a block.
  [[noreturn]] void tag_error(const Token* tag) {
    std::string message =
        tag ? cat("Encountered unknown tag '", tag->text, "'.") : "Unexpected end of template.";
    if (!end_stack_.empty()) {
      bool expected = false;
      for (const Names& names : end_stack_)
        expected |= tag && std::find(names.begin(), names.end(), tag->text) != names.end();
      message += expected ? " You probably made a nesting mistake. Jinja is expecting this tag, but "
                            "currently looking for "
                          : " Jinja was looking for the following tags: ";
      message += join_quoted(end_stack_.back()) + ".";
    }
    if (!tag_stack_.empty())
      message += cat(" The innermost block that needs to be closed is '", tag_stack_.back(), "'.");
    stream_.fail(message, tag ? *tag : stream_.current());
  }

  // The body of a block statement; the end tag's name is current afterwards, or consumed when it is the only
  // one.
  Body block_body(const Names& ends) {
    stream_.skip_op(":");
    stream_.expect(kBlockEnd);
    Body body = statements_until(ends);
    if (ends.size() == 1) stream_.next();
    return body;
  }

  StmtPtr parse_for() {
    StmtPtr s = make(StmtKind::kFor, stream_.next());
    s->target = expr_.assign_target(false, "in");
    stream_.expect_name("in");
    s->exprs.push_back(expr_.tuple({.with_condition = false, .end_name = "recursive"}));
    s->exprs.push_back(stream_.skip_name("if") ? expr_.expression() : nullptr);
    s->recursive = stream_.skip_name("recursive");
    s->body = block_body({"endfor", "else"});
    if (stream_.next().text == "else") s->otherwise = block_body({"endfor"});
    return s;
  }

  StmtPtr parse_if() {
    StmtPtr s = make(StmtKind::kIf, stream_.next());
    while (true) {
      s->exprs.push_back(expr_.tuple({.with_condition = false}));
      s->branches.push_back(block_body({"elif", "else", "endif"}));
      std::string end = stream_.next().text;
      if (end == "elif") continue;
      if (end == "else") s->otherwise = block_body({"endif"});
      return s;
    }
  }

  StmtPtr parse_set() {
    Token at = stream_.next();
    ExprPtr target = expr_.assign_target(true);
    StmtPtr s = make(StmtKind::kSet, at);
    s->target = std::move(target);
    if (stream_.skip_op("=")) {
      s->exprs.push_back(expr_.tuple({}));
      return s;
    }
    s->kind = StmtKind::kSetBlock;
    s->exprs.push_back(expr_.filter(nullptr, false));
    s->body = block_body({"endset"});
    return s;
  }

  void signature(Stmt& s) {
    stream_.expect_op("(");
    while (!stream_.current().is_op(")")) {
      if (!s.parameters.empty()) stream_.expect_op(",");
      Symbol parameter = expr_.name_target();
      if (stream_.skip_op("="))
        s.defaults.push_back(expr_.expression());
      else if (!s.defaults.empty())
        stream_.fail("non-default argument follows default argument", stream_.current());
      s.parameters.push_back(parameter);
    }
    stream_.expect_op(")");
  }

  StmtPtr parse_macro() {
    StmtPtr s = make(StmtKind::kMacro, stream_.next());
    s->symbol = expr_.name_target();
    signature(*s);
    s->body = block_body({"endmacro"});
    return s;
  }

  StmtPtr parse_call() {
    Token at = stream_.next();
    StmtPtr s = make(StmtKind::kCallBlock, at);
    if (stream_.current().is_op("(")) signature(*s);
    s->exprs.push_back(expr_.expression());
    if (s->exprs[0]->kind != ExprKind::kCall) stream_.fail("expected call", at);
    s->body = block_body({"endcall"});
    return s;
  }

  StmtPtr parse_filter() {
    StmtPtr s = make(StmtKind::kFilterBlock, stream_.next());
    s->exprs.push_back(expr_.filter(nullptr, true));
    s->body = block_body({"endfilter"});
    return s;
  }

  StmtPtr parse_with() {
    StmtPtr s = make(StmtKind::kWith, stream_.next());
    while (stream_.current().kind != kBlockEnd && stream_.current().kind != kEnd) {
      if (!s->targets.empty()) stream_.expect_op(",");
      s->targets.push_back(expr_.assign_target());
      stream_.expect_op("=");
      s->exprs.push_back(expr_.expression());
    }
    s->body = block_body({"endwith"});
    return s;
  }

  StmtPtr parse_print() {
    StmtPtr s = make(StmtKind::kPrint, stream_.next());
    while (stream_.current().kind != kBlockEnd && stream_.current().kind != kEnd) {
      if (!s->exprs.empty()) stream_.expect_op(",");
      s->exprs.push_back(expr_.expression());
    }
    return s;
  }

  StmtPtr parse_generation() {
    StmtPtr s = make(StmtKind::kScope, stream_.next());
    s->body = block_body({"endgeneration"});
    return s;
  }

  StmtPtr parse_block() {
    StmtPtr s = make(StmtKind::kBlock, stream_.next());
    Token name = stream_.expect(kName);
    if (std::find(blocks_.begin(), blocks_.end(), name.text) != blocks_.end())
      stream_.fail(cat("block '", name.text, "' defined twice"), name);
    blocks_.push_back(name.text);
    if (stream_.skip_name("scoped")) s->kind = StmtKind::kScope;
    if (stream_.current().is_op("-"))
      stream_.fail(
          "Block names in Jinja have to be valid Python identifiers and may not contain hyphens, use an "
          "underscore "
          "instead.",
          stream_.current());
    s->body = block_body({"endblock"});
    stream_.skip_name(name.text);
    return s;
  }

  StmtPtr parse_break() { return make(StmtKind::kBreak, stream_.next()); }
  StmtPtr parse_continue() { return make(StmtKind::kContinue, stream_.next()); }

  TokenStream stream_;
  ExprParser expr_;
  std::vector<Names> end_stack_;
  std::vector<std::string> tag_stack_;
  std::vector<std::string> blocks_;
};

const Parser::Tag Parser::kTags[12] = {
    {"for", &Parser::parse_for},     {"if", &Parser::parse_if},
    {"set", &Parser::parse_set},     {"macro", &Parser::parse_macro},
    {"call", &Parser::parse_call},   {"filter", &Parser::parse_filter},
    {"with", &Parser::parse_with},   {"print", &Parser::parse_print},
    {"block", &Parser::parse_block}, {"generation", &Parser::parse_generation},
    {"break", &Parser::parse_break}, {"continue", &Parser::parse_continue},
};

}  // namespace

Template parse(std::string_view source) {
  Template tree;
  tree.body = Parser(source, tree).run();
  analyze(tree);
  return tree;
}

}  // namespace quaver::jinja
