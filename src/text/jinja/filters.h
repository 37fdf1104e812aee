// The table of filters: what may stand behind a "|".
#pragma once

#include <string_view>

#include "text/jinja/interpreter.h"

namespace quaver::jinja {

using Filter = Value (*)(Interpreter&, Args&);  // the filtered value is the first positional argument

struct FilterRow {
  std::string_view name;
  Filter filter;
};

Filter find_filter(std::string_view name);  // null when there is none

}  // namespace quaver::jinja
