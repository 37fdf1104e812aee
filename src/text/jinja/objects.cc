#include "text/jinja/objects.h"

#include <algorithm>

#include "text/jinja/args.h"
#include "text/jinja/string_literal.h"

namespace quaver::jinja {

std::string BoundMethod::repr(Interpreter&) {
  return cat("<built-in method ", name_, " of ", jinja::type_name(self_), " object>");
}

void NamespaceObject::set(const std::string& name, Value value) {
  if (name.starts_with("_"))
    fault("Chat templates cannot store underscore-prefixed attributes on a namespace, but got ",
          string_repr(name), ". Please rename the attribute.");
  charge(1 + attributes_.size() / 8);
  for (auto& [key, old] : attributes_)
    if (key == name) {
      old = std::move(value);
      return;
    }
  check_items(attributes_.size() > kMaxItems ? attributes_.size() : 4);
  attributes_.emplace_back(name, std::move(value));
}

std::optional<Value> NamespaceObject::attribute(Interpreter&, std::string_view name) {
  charge(1 + attributes_.size() / 8);
  for (const auto& [key, value] : attributes_)
    if (key == name) return value;
  return std::nullopt;
}

std::string NamespaceObject::repr(Interpreter& interpreter) {
  std::string out = "<Namespace {";
  for (size_t i = 0; i < attributes_.size(); ++i) {
    grow(out, cat(i ? ", " : "", string_repr(attributes_[i].first), ": "));
    interpreter.append_repr(out, attributes_[i].second);
  }
  return out + "}>";
}

bool LoopObject::peek() {
  if (!ahead_.empty()) return true;
  if (auto item = items_.next()) ahead_.push_back(std::move(*item));
  return !ahead_.empty();
}

bool LoopObject::advance() {
  if (!peek()) return false;
  ++index0_;
  before_ = std::move(current_);
  current_ = std::move(ahead_.front());
  ahead_.pop_front();
  return true;
}

int64_t LoopObject::length() {
  if (length_) return *length_;
  std::optional<size_t> known = items_.filtered() ? std::nullopt : length_of(iterable_);
  if (known) {
    length_ = static_cast<int64_t>(*known);
  } else {
    while (auto item = items_.next()) {
      check_items(ahead_.size() > kMaxItems ? ahead_.size() : 1);
      ahead_.push_back(std::move(*item));
    }
    length_ = static_cast<int64_t>(ahead_.size()) + index0_ + 1;
  }
  return *length_;
}

std::optional<Value> LoopObject::attribute(Interpreter&, std::string_view name) {
  if (name == "index") return Value::integer(index0_ + 1);
  if (name == "index0") return Value::integer(index0_);
  if (name == "first") return Value::boolean(index0_ == 0);
  if (name == "last") return Value::boolean(!peek());
  if (name == "length") return Value::integer(length());
  if (name == "revindex") return Value::integer(length() - index0_);
  if (name == "revindex0") return Value::integer(length() - index0_ - 1);
  if (name == "depth") return Value::integer(recursion_.depth0 + 1);
  if (name == "depth0") return Value::integer(recursion_.depth0);
  if (name == "previtem") return index0_ == 0 ? Value::undefined("there is no previous item") : before_;
  if (name == "nextitem") return peek() ? ahead_.front() : Value::undefined("there is no next item");
  return std::nullopt;
}

Value LoopObject::cycle(Args& args) const {
  if (args.positional.empty()) fault("no items for cycling given");
  return args.positional[static_cast<size_t>(index0_) % args.positional.size()];
}

bool LoopObject::changed(Args& args) {
  Value now = Value::tuple(args.positional);
  if (last_changed_ && equal(*last_changed_, now)) return false;
  last_changed_ = now;
  return true;
}

Value LoopObject::call(Interpreter& interpreter, Args& args) {
  if (!recursion_.loop || !recursion_.loop->recursive)
    fault("The loop must have the 'recursive' marker to be called recursively.");
  Bound a(args, "loop", {"iterable"}, 1);
  std::string out;
  interpreter.execute_loop_body(*recursion_.loop, a.at(0), recursion_.scope, recursion_.depth0 + 1, out);
  return Value::string(std::move(out));
}

std::string LoopObject::repr(Interpreter&) { return cat("<LoopContext ", index0_ + 1, "/", length(), ">"); }

void LoopObject::release() {
  items_ = Iterator();
  iterable_ = current_ = before_ = Value();
  ahead_.clear();
  last_changed_.reset();
  recursion_ = {};
}

std::string MacroObject::name(Interpreter& interpreter) const {
  return definition_->symbol < 0 ? "None" : cat("'", interpreter.symbols().name(definition_->symbol), "'");
}

std::string MacroObject::repr(Interpreter& interpreter) {
  return cat("<Macro ", definition_->symbol < 0 ? "anonymous" : name(interpreter), ">");
}

std::optional<Value> MacroObject::attribute(Interpreter& interpreter, std::string_view attribute) {
  if (attribute == "name")
    return definition_->symbol < 0 ? Value() : Value::string(interpreter.symbols().name(definition_->symbol));
  if (attribute == "arguments") {
    std::vector<Value> names;
    for (Symbol s : definition_->parameters) names.push_back(Value::string(interpreter.symbols().name(s)));
    return Value::tuple(std::move(names));
  }
  if (attribute == "catch_kwargs") return Value::boolean(definition_->uses_kwargs);
  if (attribute == "catch_varargs") return Value::boolean(definition_->uses_varargs);
  if (attribute == "caller") return Value::boolean(definition_->uses_caller);
  return std::nullopt;
}

namespace {

std::optional<Value> take_keyword(Args& args, const std::string& name) {
  for (auto it = args.keyword.begin(); it != args.keyword.end(); ++it)
    if (it->first == name) {
      std::optional<Value> value(std::move(it->second));
      args.keyword.erase(it);
      return value;
    }
  return std::nullopt;
}

Value keyword_dict(const Args& args) {
  auto dict = std::make_shared<Dict>();
  for (const auto& [name, value] : args.keyword) dict->set(name, value);
  return Value::dict(std::move(dict));
}

}  // namespace

void MacroObject::check_keywords(Interpreter& interpreter, const Args& args) const {
  if (definition_->uses_kwargs || args.keyword.empty()) return;
  for (const auto& [key, value] : args.keyword)
    if (key == "caller")
      fault("macro ", name(interpreter),
            " was invoked with two values for the special caller argument. This is most likely a bug.");
  fault("macro ", name(interpreter), " takes no keyword argument ", string_repr(args.keyword[0].first));
}

void MacroObject::bind(Interpreter& interpreter, Args& args, const ScopePtr& inner) const {
  const Stmt& d = *definition_;
  size_t count = d.parameters.size();
  std::vector<std::optional<Value>> given(count);
  for (size_t i = 0; i < count; ++i) {
    if (i < args.positional.size())
      given[i] = args.positional[i];
    else
      given[i] = take_keyword(args, interpreter.symbols().name(d.parameters[i]));
  }
  if (d.uses_caller) {
    std::optional<Value> caller = take_keyword(args, "caller");
    inner->set(kCaller, caller && !caller->is_none() ? *caller : Value::undefined("No caller defined"));
  }
  check_keywords(interpreter, args);
  if (d.uses_kwargs) inner->set(kKwargs, keyword_dict(args));
  bool too_many = args.positional.size() > count;
  if (too_many && !d.uses_varargs)
    fault("macro ", name(interpreter), " takes not more than ", count, " argument(s)");
  if (d.uses_varargs) {
    auto extra = args.positional.begin() + static_cast<int64_t>(std::min(count, args.positional.size()));
    inner->set(kVarargs, Value::tuple(std::vector<Value>(extra, args.positional.end())));
  }
  for (size_t i = 0; i < count; ++i) {
    size_t without_default = count - d.defaults.size();
    const std::string& parameter = interpreter.symbols().name(d.parameters[i]);
    if (!given[i] && i < without_default)
      given[i] = Value::undefined(cat("parameter '", parameter, "' was not provided"));
    inner->set(d.parameters[i],
               given[i] ? *given[i] : interpreter.evaluate(*d.defaults[i - without_default], inner));
  }
}

Value MacroObject::call(Interpreter& interpreter, Args& args) {
  auto inner = std::make_shared<Scope>(Scope{scope_, {}});
  bind(interpreter, args, inner);
  return Value::string(interpreter.execute_macro(*definition_, inner));
}

std::optional<Value> CyclerObject::attribute(Interpreter&, std::string_view name) {
  if (name == "current") return items_[position_];
  if (name == "pos") return Value::integer(static_cast<int64_t>(position_));
  if (name == "items") return Value::tuple(items_);
  return std::nullopt;
}

Value CyclerObject::next() {
  Value value = items_[position_];
  position_ = (position_ + 1) % items_.size();
  return value;
}

Value JoinerObject::call(Interpreter&, Args& args) {
  Bound(args, "joiner", {});
  return std::exchange(used_, true) ? separator_ : Value::string("");
}

}  // namespace quaver::jinja
