// Binds the arguments of one call to parameter names, as Python does.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace quaver::jinja {

// Throws Fault (a TypeError's wording) when the arguments do not fit. A parameter named "" is positional
// only.
class Bound {
 public:
  Bound(const Args& args, std::string_view function, std::initializer_list<const char*> names,
        size_t required = 0);

  bool has(size_t i) const { return values_[i].has_value(); }
  const Value& at(size_t i) const { return *values_[i]; }  // precondition: has(i)
  Value get(size_t i) const { return values_[i].value_or(Value()); }
  const std::string& text(size_t i) const;  // Fault unless a string
  int64_t integer(size_t i) const;          // Fault unless an integer
  int64_t integer(size_t i, int64_t fallback) const { return has(i) ? integer(i) : fallback; }
  bool flag(size_t i, bool fallback = false) const { return has(i) ? truthy(at(i)) : fallback; }

 private:
  std::string function_;
  std::vector<std::optional<Value>> values_;
};

}  // namespace quaver::jinja
