// The methods of list, tuple, range, dict and numbers that do not change them.
#include <cmath>

#include "text/jinja/args.h"
#include "text/jinja/methods.h"

namespace quaver::jinja {
namespace {

Value dict_get(Interpreter&, const Value& self, Args& args) {
  Bound a(args, "get", {"", ""}, 1);
  const Value* v = self.as_dict().find(a.at(0));
  return v ? *v : a.get(1);
}

template <SequenceKind Kind>
Value dict_view(Interpreter&, const Value& self, Args& args) {
  Bound(args, "dict view", {});
  std::vector<Value> out;
  for (const auto& [key, value] : self.as_dict().entries) {
    if (Kind == SequenceKind::kItems)
      out.push_back(Value::tuple({key, value}));
    else
      out.push_back(Kind == SequenceKind::kKeys ? key : value);
  }
  return Value::sequence(Kind, std::move(out));
}

Value copy_dict(Interpreter&, const Value& self, Args& args) {
  Bound(args, "copy", {});
  return Value::dict(std::make_shared<Dict>(self.as_dict()));
}

Value fromkeys(Interpreter&, const Value&, Args& args) {
  Bound a(args, "fromkeys", {"", ""}, 1);
  auto dict = std::make_shared<Dict>();
  for (const Value& key : to_vector(a.at(0))) dict->set(key, a.get(1));
  return Value::dict(std::move(dict));
}

Value copy_list(Interpreter&, const Value& self, Args& args) {
  Bound(args, "copy", {});
  return Value::list(self.items());
}

Value sequence_count(Interpreter&, const Value& self, Args& args) {
  Bound a(args, "count", {""}, 1);
  int64_t n = 0;
  for (const Value& item : self.items()) n += equal(item, a.at(0));
  return Value::integer(n);
}

Value sequence_index(Interpreter& interpreter, const Value& self, Args& args) {
  Bound a(args, "index", {"", "", ""}, 1);
  int64_t length = static_cast<int64_t>(self.items().size());
  auto bound = [&](size_t i, int64_t fallback) {
    int64_t k = a.integer(i, fallback);
    return std::clamp<int64_t>(k < 0 ? k + length : k, 0, length);
  };
  int64_t start = bound(1, 0), end = bound(2, length);
  for (int64_t i = start; i < end; ++i)
    if (equal(self.items()[static_cast<size_t>(i)], a.at(0))) return Value::integer(i);
  fault(interpreter.repr(a.at(0)), " is not in ", type_name(self));
}

Value bit_length(Interpreter&, const Value& self, Args&) {
  uint64_t u =
      self.as_int() < 0 ? ~static_cast<uint64_t>(self.as_int()) + 1 : static_cast<uint64_t>(self.as_int());
  int64_t n = 0;
  for (; u; u >>= 1) ++n;
  return Value::integer(n);
}

Value is_integer(Interpreter&, const Value& self, Args&) {
  double d = self.as_double();
  return Value::boolean(std::isfinite(d) && std::floor(d) == d);
}

struct Row {
  bool (*applies)(const Value&);
  std::string_view name;
  Method method;
};

bool dict(const Value& v) { return v.is_dict(); }
bool list(const Value& v) { return v.is_sequence(SequenceKind::kList); }
bool sequence(const Value& v) {
  return list(v) || v.is_sequence(SequenceKind::kTuple) || v.is_sequence(SequenceKind::kGroup) ||
         v.is_sequence(SequenceKind::kRange);
}
bool integer(const Value& v) { return v.is_integral(); }
bool floating(const Value& v) { return v.is(Value::Kind::kFloat); }

constexpr Row kRows[] = {
    {dict, "get", dict_get},
    {dict, "items", dict_view<SequenceKind::kItems>},
    {dict, "keys", dict_view<SequenceKind::kKeys>},
    {dict, "values", dict_view<SequenceKind::kValues>},
    {dict, "copy", copy_dict},
    {dict, "fromkeys", fromkeys},
    {list, "copy", copy_list},
    {sequence, "count", sequence_count},
    {sequence, "index", sequence_index},
    {integer, "bit_length", bit_length},
    {floating, "is_integer", is_integer},
};

}  // namespace

Method find_container_method(const Value& self, std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name && row.applies(self)) return row.method;
  return nullptr;
}

}  // namespace quaver::jinja
