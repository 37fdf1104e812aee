#include "text/jinja/value.h"

#include <charconv>
#include <cmath>
#include <functional>

#include "text/jinja/unicode.h"

namespace quaver::jinja {
namespace {

int depth_of(const Value& v) {
  if (v.is_sequence()) return v.seq().depth;
  if (v.is_dict()) return v.as_dict().depth;
  return 0;
}

int checked_depth(int depth) {
  if (depth > kMaxContainerDepth)
    fault("lists and dicts are nested deeper than ", kMaxContainerDepth, " levels");
  return depth;
}

bool sequences_comparable(const Value& a, const Value& b) {
  auto family = [](const Value& v) {
    SequenceKind k = v.seq().kind;
    return k == SequenceKind::kGroup ? SequenceKind::kTuple : k;
  };
  return family(a) == family(b) && family(a) != SequenceKind::kGenerator;
}

bool equal_sequences(const Value& a, const Value& b) {
  if (&a.seq() == &b.seq()) return true;
  if (!sequences_comparable(a, b) || a.items().size() != b.items().size()) return false;
  for (size_t i = 0; i < a.items().size(); ++i)
    if (!equal(a.items()[i], b.items()[i])) return false;
  return true;
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (&a == &b) return true;
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(key);
    if (!other || !equal(value, *other)) return false;
  }
  return true;
}

[[noreturn]] void not_ordered(const Value& a, const Value& b, const char* op) {
  if (a.is_undefined()) undefined_error(a);
  if (b.is_undefined()) undefined_error(b);
  fault("'", op, "' not supported between instances of '", type_name(a), "' and '", type_name(b), "'");
}

template <class T>
int three_way(const T& a, const T& b) {
  return a < b ? -1 : (b < a ? 1 : 0);
}

int compare_sequences(const Value& a, const Value& b, const char* op) {
  bool ordered = sequences_comparable(a, b) &&
                 (a.is_sequence(SequenceKind::kList) || a.is_sequence(SequenceKind::kTuple) ||
                  a.is_sequence(SequenceKind::kGroup));
  if (!ordered) not_ordered(a, b, op);
  size_t n = std::min(a.items().size(), b.items().size());
  for (size_t i = 0; i < n; ++i)
    if (!equal(a.items()[i], b.items()[i])) return compare(a.items()[i], b.items()[i], op);
  return three_way(a.items().size(), b.items().size());
}

const char* sequence_type_name(SequenceKind kind) {
  switch (kind) {
    case SequenceKind::kList:
      return "list";
    case SequenceKind::kTuple:
      return "tuple";
    case SequenceKind::kGroup:
      return "_GroupTuple";
    case SequenceKind::kRange:
      return "range";
    case SequenceKind::kGenerator:
      return "generator";
    case SequenceKind::kKeys:
      return "dict_keys";
    case SequenceKind::kValues:
      return "dict_values";
    case SequenceKind::kItems:
      return "dict_items";
  }
  return "";
}

}  // namespace

namespace {
thread_local Budget* current_budget = nullptr;
}

Budget* exchange_budget(Budget* budget) { return std::exchange(current_budget, budget); }

void charge(size_t units) {
  if (!current_budget) return;
  if (current_budget->left < units) {
    current_budget->left = 0;
    fault("the template does too much work: it was stopped");
  }
  current_budget->left -= units;
}

void grow(std::string& out, std::string_view piece) { grow(out, 1, piece); }

void grow(std::string& out, size_t count, std::string_view piece) {
  if (piece.empty() || count == 0) return;
  if (count > kMaxString || out.size() + piece.size() * count > kMaxString)
    fault("a string would be longer than ", kMaxString, " bytes");
  charge(1 + piece.size() * count / 8);
  while (count--) out += piece;
}

void check_items(size_t count) {
  if (count > kMaxItems) fault("a list would have more than ", kMaxItems, " items");
  charge(4 * count);
}

std::optional<Value> Object::attribute(Interpreter&, std::string_view) { return std::nullopt; }

Value Object::call(Interpreter&, Args&) { fault("'", type_name(), "' object is not callable"); }

Value Value::undefined(std::string message) {
  return Value(Data(std::make_shared<const Undefined>(Undefined{std::move(message)})));
}

Value Value::string(std::string bytes, bool markup) {
  if (bytes.size() > kMaxString) fault("a string would be longer than ", kMaxString, " bytes");
  charge(1 + bytes.size() / 8);
  size_t length = utf8_length(bytes);
  return Value(Data(std::make_shared<const Text>(Text{std::move(bytes), length, markup})));
}

Value Value::sequence(SequenceKind kind, std::vector<Value> items) {
  check_items(items.size());
  auto s = std::make_shared<Sequence>();
  for (const Value& item : items) s->depth = std::max(s->depth, 1 + depth_of(item));
  checked_depth(s->depth);
  s->kind = kind;
  s->items = std::move(items);
  return Value(Data(std::move(s)));
}

Value Value::list(std::vector<Value> items) { return sequence(SequenceKind::kList, std::move(items)); }

Value Value::tuple(std::vector<Value> items) { return sequence(SequenceKind::kTuple, std::move(items)); }

Value Value::dict(std::shared_ptr<Dict> dict) {
  return Value(Data(std::shared_ptr<const Dict>(std::move(dict))));
}

bool Value::is_sequence(SequenceKind kind) const { return is_sequence() && seq().kind == kind; }

const std::vector<Value>& Value::items() const { return seq().items; }

bool Value::same_as(const Value& other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
    case Kind::kUndefined:
      return std::get<0>(data_) == std::get<0>(other.data_);
    case Kind::kString:
      return std::get<5>(data_) == std::get<5>(other.data_) || str() == other.str();
    case Kind::kSequence:
      return &seq() == &other.seq();
    case Kind::kDict:
      return &as_dict() == &other.as_dict();
    case Kind::kObject:
      return &as_object() == &other.as_object();
    default:
      return equal(*this, other);
  }
}

void Dict::set(const Value& key, Value value) {
  check_items(entries.size() + 1 > kMaxItems ? entries.size() + 1 : 4);
  depth = checked_depth(std::max({depth, 1 + depth_of(value), 1 + depth_of(key)}));
  auto [it, inserted] = index.try_emplace(key, entries.size());
  if (inserted)
    entries.emplace_back(key, std::move(value));
  else
    entries[it->second].second = std::move(value);
}

const Value* Dict::find(const Value& key) const {
  auto it = index.find(key);
  return it == index.end() ? nullptr : &entries[it->second].second;
}

const Value* Dict::find(std::string_view key) const { return find(Value::string(std::string(key))); }

size_t ValueHash::operator()(const Value& v) const { return hash_of(v); }

bool ValueEqual::operator()(const Value& a, const Value& b) const { return equal(a, b); }

size_t hash_of(const Value& v) {
  charge(1);
  switch (v.kind()) {
    case Value::Kind::kUndefined:
      return 1;
    case Value::Kind::kNone:
      return 2;
    case Value::Kind::kBool:
    case Value::Kind::kInt:
    case Value::Kind::kFloat:
      return std::hash<double>()(v.as_double());
    case Value::Kind::kString:
      return std::hash<std::string>()(v.str());
    case Value::Kind::kObject:
      return std::hash<const void*>()(&v.as_object());
    case Value::Kind::kDict:
      fault("unhashable type: 'dict'");
    case Value::Kind::kSequence:
      break;
  }
  if (!v.is_sequence(SequenceKind::kTuple) && !v.is_sequence(SequenceKind::kGroup))
    fault("unhashable type: '", type_name(v), "'");
  size_t hash = 3;
  for (const Value& item : v.items()) hash = hash * 1000003 + hash_of(item);
  return hash;
}

std::string type_name(const Value& v) {
  switch (v.kind()) {
    case Value::Kind::kUndefined:
      return "Undefined";
    case Value::Kind::kNone:
      return "NoneType";
    case Value::Kind::kBool:
      return "bool";
    case Value::Kind::kInt:
      return "int";
    case Value::Kind::kFloat:
      return "float";
    case Value::Kind::kString:
      return v.text().markup ? "Markup" : "str";
    case Value::Kind::kSequence:
      return sequence_type_name(v.seq().kind);
    case Value::Kind::kDict:
      return "dict";
    case Value::Kind::kObject:
      return v.as_object().type_name();
  }
  return "";
}

std::string object_type_repr(const Value& v) { return v.is_none() ? "None" : type_name(v) + " object"; }

void undefined_error(const Value& v) { fault(v.as_undefined().message); }

bool truthy(const Value& v) {
  switch (v.kind()) {
    case Value::Kind::kUndefined:
    case Value::Kind::kNone:
      return false;
    case Value::Kind::kBool:
      return v.as_bool();
    case Value::Kind::kInt:
      return v.as_int() != 0;
    case Value::Kind::kFloat:
      return v.as_double() != 0;
    case Value::Kind::kString:
      return !v.str().empty();
    case Value::Kind::kSequence:
      return v.is_sequence(SequenceKind::kGenerator) || !v.items().empty();
    case Value::Kind::kDict:
      return !v.as_dict().entries.empty();
    case Value::Kind::kObject:
      return true;
  }
  return false;
}

bool equal(const Value& a, const Value& b) {
  charge(1);
  if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
  if (a.is_number() && b.is_number()) return a.as_double() == b.as_double();
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Value::Kind::kString:
      return a.str() == b.str();
    case Value::Kind::kSequence:
      return equal_sequences(a, b);
    case Value::Kind::kDict:
      return equal_dicts(a.as_dict(), b.as_dict());
    case Value::Kind::kObject:
      return &a.as_object() == &b.as_object();
    default:
      return true;  // None and undefined
  }
}

int compare(const Value& a, const Value& b, const char* op) {
  if (a.is_integral() && b.is_integral()) return three_way(a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) {
    double x = a.as_double(), y = b.as_double();
    return std::isnan(x) || std::isnan(y) ? 2 : three_way(x, y);
  }
  if (a.is_string() && b.is_string()) return three_way(a.str(), b.str());
  if (a.is_sequence() && b.is_sequence()) return compare_sequences(a, b, op);
  not_ordered(a, b, op);
}

std::string float_repr(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  char buffer[64];
  auto scientific = std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::scientific);
  std::string text(buffer, scientific.ptr);
  int exponent = std::stoi(text.substr(text.find('e') + 1));
  if (exponent < -4 || exponent >= 16) return text;  // the shortest digits, two-digit exponent: as Python's
  auto fixed = std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::fixed);
  text.assign(buffer, fixed.ptr);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace quaver::jinja
