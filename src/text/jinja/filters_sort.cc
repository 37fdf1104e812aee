// Filters that order, group and deduplicate.
#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "text/jinja/args.h"
#include "text/jinja/filter_rows.h"
#include "text/jinja/unicode.h"

namespace quaver::jinja::filter {
namespace {

Value ignore_case(Value v, bool case_sensitive) {
  return !case_sensitive && v.is_string() ? Value::string(to_lower(v.str())) : v;
}

// The positions of `keys` in order; equal ones keep theirs, in reverse too.
std::vector<size_t> sorted_order(const std::vector<Value>& keys, bool reverse) {
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  auto less = [&](size_t a, size_t b) { return compare(keys[a], keys[b], "<") == -1; };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return reverse ? less(b, a) : less(a, b); });
  return order;
}

Value extreme(Interpreter& interpreter, Args& args, const char* name, int wanted) {
  Bound a(args, name, {"value", "case_sensitive", "attribute"}, 1);
  AttributePath path(a.get(2));
  std::optional<Value> best;
  Value best_key;
  Iterator items(a.at(0));
  while (auto item = items.next()) {
    Value key = ignore_case(path.get(interpreter, *item), a.flag(1));
    if (best && compare(key, best_key, wanted < 0 ? "<" : ">") != wanted) continue;
    best = std::move(item);
    best_key = std::move(key);
  }
  return best ? *best : Value::undefined("No aggregated item, sequence was empty.");
}

}  // namespace

Value min(Interpreter& i, Args& args) { return extreme(i, args, "min", -1); }
Value max(Interpreter& i, Args& args) { return extreme(i, args, "max", 1); }

Value sort(Interpreter& interpreter, Args& args) {
  Bound a(args, "sort", {"value", "reverse", "case_sensitive", "attribute"}, 1);
  std::vector<AttributePath> paths;
  if (a.has(3) && a.at(3).is_string()) {
    const std::string& names = a.text(3);
    for (size_t i = 0; i <= names.size();) {
      size_t end = std::min(names.find(',', i), names.size());
      paths.emplace_back(Value::string(names.substr(i, end - i)));
      i = end + 1;
    }
  } else {
    paths.emplace_back(a.get(3));
  }
  std::vector<Value> items = to_vector(a.at(0)), keys, out;
  for (const Value& item : items) {
    std::vector<Value> key;
    for (const AttributePath& path : paths)
      key.push_back(ignore_case(path.get(interpreter, item), a.flag(2)));
    keys.push_back(Value::list(std::move(key)));
  }
  for (size_t i : sorted_order(keys, a.flag(1))) out.push_back(items[i]);
  return Value::list(std::move(out));
}

Value dict_sort(Interpreter&, Args& args) {
  Bound a(args, "dictsort", {"value", "case_sensitive", "by", "reverse"}, 1);
  std::string by = a.has(2) ? a.text(2) : "key";
  if (by != "key" && by != "value") fault("You can only sort by either \"key\" or \"value\"");
  if (a.at(0).is_undefined()) undefined_error(a.at(0));
  if (!a.at(0).is_dict()) fault("'", type_name(a.at(0)), "' object has no attribute 'items'");
  const auto& entries = a.at(0).as_dict().entries;
  std::vector<Value> keys, out;
  for (const auto& [key, value] : entries) keys.push_back(ignore_case(by == "key" ? key : value, a.flag(1)));
  for (size_t i : sorted_order(keys, a.flag(3)))
    out.push_back(Value::tuple({entries[i].first, entries[i].second}));
  return Value::list(std::move(out));
}

Value unique(Interpreter& interpreter, Args& args) {
  Bound a(args, "unique", {"value", "case_sensitive", "attribute"}, 1);
  AttributePath path(a.get(2));
  std::unordered_set<Value, ValueHash, ValueEqual> seen;
  std::vector<Value> out;
  Iterator items(a.at(0));
  while (auto item = items.next())
    if (seen.insert(ignore_case(path.get(interpreter, *item), a.flag(1))).second)
      out.push_back(std::move(*item));
  return Value::sequence(SequenceKind::kGenerator, std::move(out));
}

Value group_by(Interpreter& interpreter, Args& args) {
  Bound a(args, "groupby", {"value", "attribute", "default", "case_sensitive"}, 2);
  AttributePath path(a.at(1));
  Value fallback = a.get(2);
  const Value* fallback_or_none = fallback.is_none() ? nullptr : &fallback;
  std::vector<Value> items = to_vector(a.at(0)), keys, groups;
  for (const Value& item : items)
    keys.push_back(ignore_case(path.get(interpreter, item, fallback_or_none), a.flag(3)));
  std::vector<size_t> order = sorted_order(keys, false);
  for (size_t i = 0; i < order.size();) {
    size_t first = i;
    std::vector<Value> members;
    for (; i < order.size() && equal(keys[order[i]], keys[order[first]]); ++i)
      members.push_back(items[order[i]]);
    Value key = path.get(interpreter, members[0], fallback_or_none);
    groups.push_back(Value::sequence(SequenceKind::kGroup, {key, Value::list(std::move(members))}));
    if (i == first) ++i;  // a key that does not equal itself
  }
  return Value::list(std::move(groups));
}

}  // namespace quaver::jinja::filter
