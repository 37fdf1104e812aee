// The expression half of the parser.
#include <algorithm>
#include <charconv>

#include "text/jinja/parser.h"

namespace quaver::jinja {

using enum TokenKind;

namespace {
bool is_one_of(const Token& token, std::initializer_list<std::string_view> ops) {
  return token.kind == kOperator && std::find(ops.begin(), ops.end(), token.text) != ops.end();
}
}  // namespace

ExprPtr ExprParser::make(ExprKind kind, const Token& at) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = at.line;
  node->column = at.column;
  return node;
}

void ExprParser::adopt(Expr& parent, ExprPtr child) const {
  if (child) parent.depth = std::max(parent.depth, child->depth + 1);
  if (parent.depth > kMaxExprDepth)
    throw SyntaxError{cat("the expression is nested deeper than ", kMaxExprDepth, " levels"), parent.line,
                      parent.column};
  parent.children.push_back(std::move(child));
}

ExprPtr ExprParser::make(ExprKind kind, const Token& at, ExprPtr a, ExprPtr b) const {
  ExprPtr node = make(kind, at);
  adopt(*node, std::move(a));
  if (b) adopt(*node, std::move(b));
  return node;
}

ExprPtr ExprParser::expression(bool with_condition) {
  if (++nesting_ > kMaxExprDepth)
    stream_.fail(cat("the expression is nested deeper than ", kMaxExprDepth, " levels"), stream_.current());
  ExprPtr node = with_condition ? condition() : logical_or();
  --nesting_;
  return node;
}

ExprPtr ExprParser::condition() {
  Token at = stream_.current();
  ExprPtr value = logical_or();
  while (stream_.skip_name("if")) {
    ExprPtr test = logical_or();
    ExprPtr otherwise = stream_.skip_name("else") ? expression() : nullptr;
    ExprPtr node = make(ExprKind::kCondition, at, std::move(value), std::move(test));
    adopt(*node, std::move(otherwise));
    value = std::move(node);
  }
  return value;
}

ExprPtr ExprParser::logical_or() {
  Token at = stream_.current();
  ExprPtr left = logical_and();
  while (stream_.skip_name("or")) left = make(ExprKind::kOr, at, std::move(left), logical_and());
  return left;
}

ExprPtr ExprParser::logical_and() {
  Token at = stream_.current();
  ExprPtr left = logical_not();
  while (stream_.skip_name("and")) left = make(ExprKind::kAnd, at, std::move(left), logical_not());
  return left;
}

ExprPtr ExprParser::logical_not() {
  Token at = stream_.current();
  int count = 0;
  while (stream_.skip_name("not")) ++count;
  ExprPtr node = comparison();
  while (count-- > 0) node = make(ExprKind::kNot, at, std::move(node));
  return node;
}

ExprPtr ExprParser::comparison() {
  Token at = stream_.current();
  ExprPtr first = sum();
  ExprPtr node;
  while (true) {
    std::string op;
    if (is_one_of(stream_.current(), {"==", "!=", "<", "<=", ">", ">="})) {
      op = stream_.next().text;
    } else if (stream_.skip_name("in")) {
      op = "in";
    } else if (stream_.current().is_name("not") && stream_.look().is_name("in")) {
      stream_.next();
      stream_.next();
      op = "not in";
    } else {
      break;
    }
    if (!node) node = make(ExprKind::kCompare, at, std::move(first));
    node->operators.push_back(op);
    adopt(*node, sum());
  }
  return node ? std::move(node) : std::move(first);
}

ExprPtr ExprParser::sum() {
  ExprPtr left = concat();
  while (is_one_of(stream_.current(), {"+", "-"})) {
    Token op = stream_.next();
    left = make(ExprKind::kBinary, op, std::move(left), concat());
    left->name = op.text;
  }
  return left;
}

ExprPtr ExprParser::concat() {
  Token at = stream_.current();
  ExprPtr first = product();
  if (!stream_.current().is_op("~")) return first;
  ExprPtr node = make(ExprKind::kConcat, at, std::move(first));
  while (stream_.skip_op("~")) adopt(*node, product());
  return node;
}

ExprPtr ExprParser::product() {
  ExprPtr left = power();
  while (is_one_of(stream_.current(), {"*", "/", "//", "%"})) {
    Token op = stream_.next();
    left = make(ExprKind::kBinary, op, std::move(left), power());
    left->name = op.text;
  }
  return left;
}

// Groups from the left and binds looser than a sign: (-2) ** 2, both unlike Python.
ExprPtr ExprParser::power() {
  ExprPtr left = unary();
  while (stream_.current().is_op("**")) {
    Token op = stream_.next();
    left = make(ExprKind::kBinary, op, std::move(left), unary());
    left->name = op.text;
  }
  return left;
}

ExprPtr ExprParser::unary(bool with_filter) {
  Token at = stream_.current();
  ExprPtr node;
  if (at.is_op("-") || at.is_op("+")) {
    stream_.next();
    if (++nesting_ > kMaxExprDepth) stream_.fail("too many signs in a row", at);
    node = make(at.text == "-" ? ExprKind::kNegate : ExprKind::kPlus, at, unary(false));
    --nesting_;
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filter ? filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr ExprParser::name_or_constant(bool with_namespace) {
  Token token = stream_.next();
  const std::string& name = token.text;
  ExprPtr node = make(ExprKind::kConst, token);
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    node->value = Value::boolean(name == "true" || name == "True");
  } else if (name != "none" && name != "None") {
    bool reference = with_namespace && stream_.current().is_op(".");
    node->kind = reference ? ExprKind::kNamespace : ExprKind::kName;
    node->symbol = symbols_.intern(name);
    if (reference) {
      stream_.next();
      node->name = stream_.expect(kName).text;
    }
  }
  return node;
}

ExprPtr ExprParser::number() {
  Token token = stream_.next();
  ExprPtr node = make(ExprKind::kConst, token);
  const std::string& text = token.text;
  if (token.kind == kFloat) {
    double d = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), d);
    if (error == std::errc::result_out_of_range) d = std::strtod(text.c_str(), nullptr);
    node->value = Value::number(d);
    return node;
  }
  int base = 10;
  if (text.size() > 2 && text[0] == '0')
    base = (text[1] | 0x20) == 'x' ? 16 : ((text[1] | 0x20) == 'o' ? 8 : 2);
  if (text.size() > 2 && text[1] == '0') base = 10;  // 000
  int64_t i = 0;
  auto [end, error] = std::from_chars(text.data() + (base == 10 ? 0 : 2), text.data() + text.size(), i, base);
  if (error != std::errc()) stream_.fail(cat("integer ", text, " does not fit 64 bits"), token);
  node->value = Value::integer(i);
  return node;
}

ExprPtr ExprParser::primary(bool with_namespace) {
  Token token = stream_.current();
  if (token.kind == kName) return name_or_constant(with_namespace);
  if (token.kind == kInteger || token.kind == kFloat) return number();
  if (token.kind == kString) {
    std::string text;
    while (stream_.current().kind == kString) text += stream_.next().text;
    ExprPtr node = make(ExprKind::kConst, token);
    node->value = Value::string(std::move(text));
    return node;
  }
  if (token.is_op("(")) {
    stream_.next();
    ExprPtr node = tuple({.parenthesized = true});
    stream_.expect_op(")");
    return node;
  }
  if (token.is_op("[")) return list();
  if (token.is_op("{")) return dict();
  stream_.fail(cat("unexpected '", describe(token), "'"), token);
}

bool ExprParser::tuple_ends(const TupleRules& rules) const {
  const Token& t = stream_.current();
  return t.kind == kVariableEnd || t.kind == kBlockEnd || t.is_op(")") ||
         (!rules.end_name.empty() && t.is_name(rules.end_name));
}

ExprPtr ExprParser::tuple(const TupleRules& rules) {
  Token at = stream_.current();
  ExprPtr node = make(ExprKind::kTuple, at);
  bool is_tuple = false;
  while (true) {
    if (!node->children.empty()) stream_.expect_op(",");
    if (tuple_ends(rules)) break;
    adopt(*node, rules.target ? primary(rules.with_namespace) : expression(rules.with_condition));
    if (!stream_.current().is_op(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return node;
  if (!node->children.empty()) return std::move(node->children[0]);
  if (!rules.parenthesized)
    stream_.fail(cat("Expected an expression, got '", describe(stream_.current()), "'"), stream_.current());
  return node;
}

ExprPtr ExprParser::list() {
  ExprPtr node = make(ExprKind::kList, stream_.expect_op("["));
  while (!stream_.current().is_op("]")) {
    if (!node->children.empty()) stream_.expect_op(",");
    if (stream_.current().is_op("]")) break;
    adopt(*node, expression());
  }
  stream_.expect_op("]");
  return node;
}

ExprPtr ExprParser::dict() {
  ExprPtr node = make(ExprKind::kDict, stream_.expect_op("{"));
  while (!stream_.current().is_op("}")) {
    if (!node->children.empty()) stream_.expect_op(",");
    if (stream_.current().is_op("}")) break;
    adopt(*node, expression());
    stream_.expect_op(":");
    adopt(*node, expression());
  }
  stream_.expect_op("}");
  return node;
}

ExprPtr ExprParser::postfix(ExprPtr node) {
  while (true) {
    const Token& t = stream_.current();
    if (t.is_op(".") || t.is_op("["))
      node = subscript(std::move(node));
    else if (t.is_op("("))
      node = call(std::move(node));
    else
      return node;
  }
}

ExprPtr ExprParser::filters_and_tests(ExprPtr node) {
  while (true) {
    const Token& t = stream_.current();
    if (t.is_op("|"))
      node = filter(std::move(node), false);
    else if (t.is_name("is"))
      node = test(std::move(node));
    else if (t.is_op("("))
      node = call(std::move(node));
    else
      return node;
  }
}

ExprPtr ExprParser::subscript(ExprPtr node) {
  Token at = stream_.next();
  if (at.text == ".") {
    Token name = stream_.current();
    if (name.kind == kInteger) return make(ExprKind::kGetitem, at, std::move(node), number());
    stream_.next();
    if (name.kind != kName) stream_.fail("expected name or number", name);
    ExprPtr result = make(ExprKind::kGetattr, at, std::move(node));
    result->name = name.text;
    return result;
  }
  std::vector<ExprPtr> args;
  while (!stream_.current().is_op("]")) {
    if (!args.empty()) stream_.expect_op(",");
    args.push_back(subscript_argument());
  }
  stream_.expect_op("]");
  if (args.size() == 1) return make(ExprKind::kGetitem, at, std::move(node), std::move(args[0]));
  ExprPtr key = make(ExprKind::kTuple, at);
  for (ExprPtr& arg : args) adopt(*key, std::move(arg));
  return make(ExprKind::kGetitem, at, std::move(node), std::move(key));
}

ExprPtr ExprParser::subscript_argument() {
  Token at = stream_.current();
  ExprPtr start;
  if (!stream_.skip_op(":")) {
    start = expression();
    if (!stream_.skip_op(":")) return start;
  }
  auto part = [&]() -> ExprPtr {
    const Token& t = stream_.current();
    return t.is_op(":") || t.is_op("]") || t.is_op(",") ? nullptr : expression();
  };
  ExprPtr node = make(ExprKind::kSlice, at);
  adopt(*node, std::move(start));
  adopt(*node, part());
  adopt(*node, stream_.skip_op(":") ? part() : nullptr);
  return node;
}

void ExprParser::argument(CallArguments& args, const Token& open) {
  auto ensure = [&](bool ok) {
    if (!ok) stream_.fail("invalid syntax for function call expression", open);
  };
  if (stream_.skip_op("*")) {
    ensure(!args.star && !args.double_star);
    args.star = expression();
  } else if (stream_.skip_op("**")) {
    ensure(!args.double_star);
    args.double_star = expression();
  } else if (stream_.current().kind == kName && stream_.look().is_op("=")) {
    ensure(!args.double_star);
    std::string name = stream_.next().text;
    stream_.next();
    args.keyword.emplace_back(std::move(name), expression());
  } else {
    ensure(!args.star && !args.double_star && args.keyword.empty());
    args.positional.push_back(expression());
  }
}

std::unique_ptr<CallArguments> ExprParser::arguments() {
  Token open = stream_.expect_op("(");
  auto args = std::make_unique<CallArguments>();
  bool need_comma = false;
  while (!stream_.current().is_op(")")) {
    if (need_comma) {
      stream_.expect_op(",");
      if (stream_.current().is_op(")")) break;
    }
    argument(*args, open);
    need_comma = true;
  }
  stream_.expect_op(")");
  return args;
}

namespace {
int depth_of(const CallArguments& args) {
  int depth = 0;
  for (const ExprPtr& e : args.positional) depth = std::max(depth, e->depth);
  for (const auto& [name, e] : args.keyword) depth = std::max(depth, e->depth);
  if (args.star) depth = std::max(depth, args.star->depth);
  if (args.double_star) depth = std::max(depth, args.double_star->depth);
  return depth;
}
}  // namespace

ExprPtr ExprParser::call(ExprPtr callee) {
  Token at = stream_.current();
  ExprPtr node = make(ExprKind::kCall, at, std::move(callee));
  node->call = arguments();
  node->depth = std::max(node->depth, depth_of(*node->call) + 1);
  return node;
}

std::string ExprParser::dotted_name() {
  std::string name = stream_.expect(kName).text;
  while (stream_.skip_op(".")) name += "." + stream_.expect(kName).text;
  return name;
}

ExprPtr ExprParser::filter(ExprPtr input, bool inline_start) {
  while (inline_start || stream_.skip_op("|")) {
    inline_start = false;
    Token at = stream_.current();
    ExprPtr node = make(ExprKind::kFilter, at, std::move(input));
    node->name = dotted_name();
    node->call = stream_.current().is_op("(") ? arguments() : std::make_unique<CallArguments>();
    node->depth = std::max(node->depth, depth_of(*node->call) + 1);
    input = std::move(node);
  }
  return input;
}

ExprPtr ExprParser::test(ExprPtr node) {
  Token at = stream_.next();
  bool negated = stream_.skip_name("not");
  ExprPtr result = make(ExprKind::kTest, at, std::move(node));
  result->name = dotted_name();
  result->call = std::make_unique<CallArguments>();
  const Token& t = stream_.current();
  bool starts_value = t.kind == kName || t.kind == kString || t.kind == kInteger || t.kind == kFloat ||
                      t.is_op("[") || t.is_op("{");
  if (t.is_op("(")) {
    result->call = arguments();
  } else if (starts_value && !t.is_name("else") && !t.is_name("or") && !t.is_name("and")) {
    if (t.is_name("is")) stream_.fail("You cannot chain multiple tests with is", t);
    result->call->positional.push_back(postfix(primary()));
  }
  result->depth = std::max(result->depth, depth_of(*result->call) + 1);
  if (!negated) return result;
  return make(ExprKind::kNot, at, std::move(result));
}

Symbol ExprParser::name_target() {
  Token token = stream_.expect(kName);
  static constexpr std::string_view kConstants[] = {"true", "True", "false", "False", "none", "None"};
  if (std::find(std::begin(kConstants), std::end(kConstants), token.text) != std::end(kConstants))
    stream_.fail("can't assign to 'name'", token);
  return symbols_.intern(token.text);
}

namespace {
const char* target_kind(const Expr& e) {
  switch (e.kind) {
    case ExprKind::kName:
    case ExprKind::kNamespace:
      return nullptr;
    case ExprKind::kTuple:
      for (const ExprPtr& child : e.children)
        if (target_kind(*child)) return "tuple";
      return nullptr;
    case ExprKind::kList:
      return "list";
    case ExprKind::kDict:
      return "dict";
    default:
      return "const";
  }
}
}  // namespace

ExprPtr ExprParser::assign_target(bool with_namespace, std::string_view end_name) {
  Token at = stream_.current();
  ExprPtr target = tuple({.target = true, .with_namespace = with_namespace, .end_name = end_name});
  if (const char* kind = target_kind(*target)) stream_.fail(cat("can't assign to '", kind, "'"), at);
  return target;
}

}  // namespace quaver::jinja
