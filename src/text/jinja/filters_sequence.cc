// Filters that select, map and regroup sequences.
#include <algorithm>

#include "text/jinja/args.h"
#include "text/jinja/filter_rows.h"
#include "text/jinja/methods.h"
#include "text/jinja/string_literal.h"
#include "text/jinja/unicode.h"

namespace quaver::jinja::filter {
namespace {

Value generator(std::vector<Value> items) {
  return Value::sequence(SequenceKind::kGenerator, std::move(items));
}

// What select and its three siblings do. `args`: the value, then with `by_attribute` the attribute's name,
// then the test's name and arguments.
Value choose(Interpreter& interpreter, Args& args, bool by_attribute, bool wanted) {
  if (args.positional.empty()) fault("missing the value to filter");
  Value value = args.positional[0];
  if (!truthy(value)) return generator({});
  size_t used = 1;
  Value attribute;
  if (by_attribute) {
    if (args.positional.size() < 2) fault("Missing parameter for attribute name");
    attribute = args.positional[used++];
  }
  AttributePath path(attribute);
  bool has_test = args.positional.size() > used;
  if (has_test && !args.positional[used].is_string())
    fault("No test named ", interpreter.repr(args.positional[used]), ".");
  std::string test = has_test ? args.positional[used++].str() : "";
  std::vector<Value> kept;
  Iterator items(value);
  while (auto item = items.next()) {
    Args call{.keyword = args.keyword};
    call.positional.push_back(path.get(interpreter, *item));
    call.positional.insert(
        call.positional.end(),
        args.positional.begin() + static_cast<int64_t>(std::min(used, args.positional.size())),
        args.positional.end());
    bool passes = has_test ? interpreter.call_test(test, call) : truthy(call.positional[0]);
    if (passes == wanted) kept.push_back(std::move(*item));
  }
  return generator(std::move(kept));
}

}  // namespace

AttributePath::AttributePath(const Value& attribute) {
  if (attribute.is_none()) return;
  if (!attribute.is_string()) {
    parts_.push_back(attribute);
    return;
  }
  const std::string& s = attribute.str();
  for (size_t i = 0; i <= s.size();) {
    size_t end = std::min(s.find('.', i), s.size());
    std::string part = s.substr(i, end - i);
    bool number = !part.empty() && part.size() < 18 && part.find_first_not_of("0123456789") == part.npos;
    parts_.push_back(number ? Value::integer(std::stoll(part)) : Value::string(part));
    i = end + 1;
  }
}

Value AttributePath::get(Interpreter& interpreter, Value item, const Value* fallback) const {
  for (const Value& part : parts_) {
    item = interpreter.getitem(item, part);
    if (fallback && item.is_undefined()) item = *fallback;
  }
  return item;
}

Value select(Interpreter& i, Args& args) { return choose(i, args, false, true); }
Value reject(Interpreter& i, Args& args) { return choose(i, args, false, false); }
Value select_attribute(Interpreter& i, Args& args) { return choose(i, args, true, true); }
Value reject_attribute(Interpreter& i, Args& args) { return choose(i, args, true, false); }

namespace {

Value map_attribute(Interpreter& interpreter, Args& args) {
  Value attribute, fallback;
  bool has_fallback = false;
  for (const auto& [name, value] : args.keyword) {
    if (name == "attribute")
      attribute = value;
    else if (name == "default")
      fallback = value, has_fallback = !value.is_none();
    else
      fault("Unexpected keyword argument ", string_repr(name));
  }
  AttributePath path(attribute);
  std::vector<Value> out;
  Iterator items(args.positional[0]);
  while (auto item = items.next())
    out.push_back(path.get(interpreter, std::move(*item), has_fallback ? &fallback : nullptr));
  return generator(std::move(out));
}

}  // namespace

Value map(Interpreter& interpreter, Args& args) {
  if (args.positional.empty()) fault("missing the value to map");
  if (!truthy(args.positional[0])) return generator({});
  bool has_attribute = std::any_of(args.keyword.begin(), args.keyword.end(),
                                   [](const auto& k) { return k.first == "attribute"; });
  if (args.positional.size() == 1 && has_attribute) return map_attribute(interpreter, args);
  if (args.positional.size() == 1) fault("map requires a filter argument");
  if (!args.positional[1].is_string()) fault("No filter named ", interpreter.repr(args.positional[1]), ".");
  std::vector<Value> out;
  Iterator items(args.positional[0]);
  while (auto item = items.next()) {
    Args call{.positional = {std::move(*item)}, .keyword = args.keyword};
    call.positional.insert(call.positional.end(), args.positional.begin() + 2, args.positional.end());
    out.push_back(interpreter.call_filter(args.positional[1].str(), call));
  }
  return generator(std::move(out));
}

Value first(Interpreter&, Args& args) {
  Bound a(args, "first", {"seq"}, 1);
  auto item = Iterator(a.at(0)).next();
  return item ? *item : Value::undefined("No first item, sequence was empty.");
}

Value last(Interpreter&, Args& args) {
  Bound a(args, "last", {"seq"}, 1);
  if (a.at(0).is_sequence(SequenceKind::kGenerator) || a.at(0).is(Value::Kind::kObject))
    fault("'", type_name(a.at(0)), "' object is not reversible");
  std::vector<Value> items = to_vector(a.at(0));
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value list(Interpreter&, Args& args) {
  Bound a(args, "list", {"value"}, 1);
  return Value::list(to_vector(a.at(0)));
}

Value items(Interpreter& interpreter, Args& args) {
  Bound a(args, "items", {"value"}, 1);
  if (a.at(0).is_undefined()) return generator({});
  if (!a.at(0).is_dict()) fault("Can only get item pairs from a mapping.");
  Args none;
  return generator(find_container_method(a.at(0), "items")(interpreter, a.at(0), none).items());
}

Value reverse(Interpreter&, Args& args) {
  Bound a(args, "reverse", {"value"}, 1);
  const Value& v = a.at(0);
  if (v.is_string()) return jinja::slice(v, {.step = -1});
  bool iterable = v.is_sequence() || v.is_dict() || v.is_undefined();
  if (!iterable) fault("argument must be iterable");
  std::vector<Value> out = to_vector(v);
  std::reverse(out.begin(), out.end());
  return v.is_sequence(SequenceKind::kGenerator) ? Value::list(std::move(out)) : generator(std::move(out));
}

Value batch(Interpreter&, Args& args) {
  Bound a(args, "batch", {"value", "linecount", "fill_with"}, 2);
  size_t size = static_cast<size_t>(std::max<int64_t>(a.integer(1), 0));
  std::vector<Value> rows, row;
  Iterator items(a.at(0));
  while (auto item = items.next()) {
    if (row.size() == size && (size > 0 || !rows.empty()))
      rows.push_back(Value::list(std::exchange(row, {})));
    row.push_back(std::move(*item));
  }
  if (!row.empty()) {
    bool fill = a.has(2) && !a.at(2).is_none() && row.size() < size;
    if (fill) check_items(size);
    if (fill) row.resize(size, a.at(2));
    rows.push_back(Value::list(std::move(row)));
  }
  return generator(std::move(rows));
}

Value slice(Interpreter&, Args& args) {
  Bound a(args, "slice", {"value", "slices", "fill_with"}, 2);
  std::vector<Value> all = to_vector(a.at(0)), out;
  int64_t slices = a.integer(1);
  if (slices == 0) fault("integer division or modulo by zero");
  if (slices < 0) return generator({});
  check_items(static_cast<size_t>(slices));
  size_t count = static_cast<size_t>(slices), each = all.size() / count, extra = all.size() % count,
         start = 0;
  for (size_t i = 0; i < count; ++i) {
    size_t size = each + (i < extra ? 1 : 0);
    std::vector<Value> part(all.begin() + static_cast<int64_t>(start),
                            all.begin() + static_cast<int64_t>(start + size));
    if (a.has(2) && !a.at(2).is_none() && i >= extra) part.push_back(a.at(2));
    out.push_back(Value::list(std::move(part)));
    start += size;
  }
  return generator(std::move(out));
}

Value sum(Interpreter& interpreter, Args& args) {
  Bound a(args, "sum", {"iterable", "attribute", "start"}, 1);
  AttributePath path(a.get(1));
  Value total = a.has(2) ? a.at(2) : Value::integer(0);
  if (total.is_string()) fault("sum() can't sum strings [use ''.join(seq) instead]");
  Iterator items(a.at(0));
  while (auto item = items.next())
    total = binary(interpreter, "+", total, path.get(interpreter, std::move(*item)));
  return total;
}

}  // namespace quaver::jinja::filter
