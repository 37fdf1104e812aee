// The tojson filter's text: Python's json.dumps.
#pragma once

#include <optional>
#include <string>

#include "text/jinja/value.h"

namespace quaver::jinja {

struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false;
  std::optional<std::string> indent;  // of one level; with it every item has a line of its own
  std::string item_separator, key_separator = ": ";
};

// Throws Fault on what JSON cannot hold.
std::string dump_json(const Value& v, const JsonStyle& style);

}  // namespace quaver::jinja
