// JSON as the rest of Quaver uses it: one alias, one strict parser with limits, typed access that names the
// key.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace quaver {

using json = nlohmann::json;

struct JsonLimits {
  size_t max_bytes = size_t{256} << 20;
  int max_depth = 64;
  bool unique_keys = true;  // two equal keys in one object are an error, never "the last one wins"
};

// Parses untrusted text. Never recurses deeper than `max_depth`; refuses NaN, Infinity, comments and broken
// UTF-8. Throws Error(kBadFile) whose message begins with `what` (a file name or "request body").
json parse_json(std::string_view text, std::string_view what, const JsonLimits& limits = {});

// Reads and parses a file; errors name it.
json read_json_file(const std::string& path, const JsonLimits& limits = {});

// The value of `key` as a T. A wrong type is Error(kBadFile) naming `what` and the key; an absent key or null
// gives `fallback`.
template <class T>
T json_value(const json& object, const char* key, T fallback, std::string_view what) {
  auto it = object.find(key);
  if (it == object.end() || it->is_null()) return fallback;
  try {
    return it->template get<T>();
  } catch (const json::exception&) {
    throw Error(ErrorKind::kBadFile,
                cat(what, ": key '", key, "' has the wrong type: ", it->dump().substr(0, 80)), key);
  }
}

// As json_value, but the key must be present.
template <class T>
T json_required(const json& object, const char* key, std::string_view what) {
  if (!object.contains(key) || object.at(key).is_null())
    throw Error(ErrorKind::kBadFile, cat(what, ": key '", key, "' is missing"), key);
  return json_value<T>(object, key, T{}, what);
}

}  // namespace quaver
