// Attributes and methods of values: str, list, dict and the host objects.
#pragma once

#include <optional>
#include <string_view>

#include "text/jinja/interpreter.h"
#include "text/jinja/objects.h"

namespace quaver::jinja {

// The method of a built-in type or host object, or null.
Method find_method(const Value& self, std::string_view name);

// What Python's getattr gives inside the sandbox: a value, a bound method, or an undefined value for what the
// sandbox hides. Nothing when there is no such attribute.
std::optional<Value> find_attribute(Interpreter& interpreter, const Value& self, std::string_view name);

// __class__ and its like, which every Python object has and the sandbox hides.
bool is_hidden_attribute(std::string_view name);

bool is_hashable(const Value& v);

// The tables of the methods' own files.
Method find_string_method(std::string_view name);
Method find_string_test_method(std::string_view name);
Method find_container_method(const Value& self, std::string_view name);

// Text helpers that filters share.
std::string_view strip(std::string_view s, std::optional<std::string_view> characters, bool left, bool right);
std::string replace_text(std::string_view s, std::string_view from, std::string_view to, int64_t count);
std::vector<std::string_view> split_lines(std::string_view s, bool keep_ends);

}  // namespace quaver::jinja
