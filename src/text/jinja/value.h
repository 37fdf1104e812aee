// What a template computes with: Python's values as far as chat templates can see them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/cat.h"

namespace quaver::jinja {

class Value;
class Interpreter;
struct Args;

// A rendering error. The interpreter adds the line before it leaves as quaver::Error.
struct Fault {
  std::string message;
};

template <class... Parts>
[[noreturn]] void fault(const Parts&... parts) {
  throw Fault{cat(parts...)};
}

// What one rendering may spend, so that hostile templates end: a unit is about one step of evaluation, eight
// bytes of text or a quarter of a list item. Each thread renders with its own budget.
struct Budget {
  size_t left = size_t{1} << 26;
};
Budget* exchange_budget(Budget* budget);  // sets this thread's and returns the one before
void charge(size_t units);                // throws Fault when it is spent

inline constexpr size_t kMaxString = size_t{16} << 20;
inline constexpr size_t kMaxItems = 1000000;

// Appends within kMaxString and the budget.
void grow(std::string& out, std::string_view piece);
void grow(std::string& out, size_t count, std::string_view piece);
// Throws Fault if a list of `count` items must not be made.
void check_items(size_t count);

// Why a value is undefined: the message that any use of it, other than printing or testing, raises.
struct Undefined {
  std::string message;
};

// UTF-8 with its length in code points. A byte that is not part of valid UTF-8 counts as one code point.
struct Text {
  std::string bytes;
  size_t length = 0;
  bool markup = false;  // came from `safe` or `escape`: adding plain text to it escapes that text
  bool single_byte() const { return length == bytes.size(); }
};

enum class SequenceKind : uint8_t { kList, kTuple, kGroup, kRange, kGenerator, kKeys, kValues, kItems };

struct Sequence;
struct Dict;

// A host object: namespace, loop, macro, function, bound method. Owned by the interpreter until the rendering
// ends, so that cycles and long chains of objects are neither leaked nor freed recursively.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string type_name() const = 0;
  virtual std::string repr(Interpreter& interpreter) = 0;
  virtual std::optional<Value> attribute(Interpreter& interpreter, std::string_view name);
  virtual bool callable() const { return false; }
  virtual Value call(Interpreter& interpreter, Args& args);
  virtual void release() = 0;  // drops every value held
};

class Value {
 public:
  enum class Kind : uint8_t { kUndefined, kNone, kBool, kInt, kFloat, kString, kSequence, kDict, kObject };

  Value() : data_(std::monostate{}) {}
  static Value undefined(std::string message);
  static Value boolean(bool b) { return Value(Data(std::in_place_type<bool>, b)); }
  static Value integer(int64_t i) { return Value(Data(std::in_place_type<int64_t>, i)); }
  static Value number(double d) { return Value(Data(std::in_place_type<double>, d)); }
  static Value string(std::string bytes, bool markup = false);
  static Value sequence(SequenceKind kind, std::vector<Value> items);
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  static Value dict(std::shared_ptr<Dict> dict);
  static Value object(std::shared_ptr<Object> object) { return Value(Data(std::move(object))); }

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is(Kind k) const { return kind() == k; }
  bool is_undefined() const { return is(Kind::kUndefined); }
  bool is_none() const { return is(Kind::kNone); }
  bool is_string() const { return is(Kind::kString); }
  bool is_sequence() const { return is(Kind::kSequence); }
  bool is_sequence(SequenceKind kind) const;
  bool is_dict() const { return is(Kind::kDict); }
  bool is_integral() const { return is(Kind::kInt) || is(Kind::kBool); }  // as isinstance(x, int)
  bool is_number() const { return is_integral() || is(Kind::kFloat); }

  // Preconditions: the kind.
  const Undefined& as_undefined() const { return *std::get<0>(data_); }
  bool as_bool() const { return std::get<bool>(data_); }
  int64_t as_int() const { return is(Kind::kBool) ? as_bool() : std::get<int64_t>(data_); }
  double as_double() const {
    return is(Kind::kFloat) ? std::get<double>(data_) : static_cast<double>(as_int());
  }
  const Text& text() const { return *std::get<5>(data_); }
  const std::string& str() const { return text().bytes; }
  Sequence& seq() const { return *std::get<6>(data_); }
  const std::vector<Value>& items() const;
  const Dict& as_dict() const { return *std::get<7>(data_); }
  Object& as_object() const { return *std::get<8>(data_); }
  template <class T>
  T* object_as() const {
    return is(Kind::kObject) ? dynamic_cast<T*>(&as_object()) : nullptr;
  }
  bool same_as(const Value& other) const;  // Python's `is`, as far as it can be told

 private:
  using Data = std::variant<std::shared_ptr<const Undefined>, std::monostate, bool, int64_t, double,
                            std::shared_ptr<const Text>, std::shared_ptr<Sequence>,
                            std::shared_ptr<const Dict>, std::shared_ptr<Object>>;
  explicit Value(Data data) : data_(std::move(data)) {}
  Data data_;
};

struct Sequence {
  SequenceKind kind = SequenceKind::kList;
  std::vector<Value> items;
  int depth = 1;                 // containers inside each other, to bound every recursive walk
  size_t consumed = 0;           // generators give each item once
  int64_t range[3] = {0, 0, 1};  // start, stop, step of a range
};

struct ValueHash {
  size_t operator()(const Value& v) const;
};
struct ValueEqual {
  bool operator()(const Value& a, const Value& b) const;
};

// Insertion-ordered, keyed by any hashable value. Immutable once it has become a Value.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_map<Value, size_t, ValueHash, ValueEqual> index;
  int depth = 1;

  void set(const Value& key, Value value);  // throws Fault on an unhashable key
  void set(std::string key, Value value) { set(Value::string(std::move(key)), std::move(value)); }
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
};

// Positional and keyword arguments of one call.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keyword;
};

std::string type_name(const Value& v);         // as type(x).__name__
std::string object_type_repr(const Value& v);  // as in "'dict object' has no attribute 'x'"
bool truthy(const Value& v);
bool equal(const Value& a, const Value& b);  // ==
int compare(const Value& a, const Value& b,
            const char* op);       // <0, 0, >0; 2 when unordered (NaN); Fault if not comparable
size_t hash_of(const Value& v);    // throws Fault "unhashable type: ..."
std::string float_repr(double d);  // Python's repr
[[noreturn]] void undefined_error(const Value& v);

// The bound on nested containers.
inline constexpr int kMaxContainerDepth = 200;

}  // namespace quaver::jinja
