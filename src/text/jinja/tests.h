// The table of tests: what may stand behind "is".
#pragma once

#include <string_view>

#include "text/jinja/interpreter.h"

namespace quaver::jinja {

using Test = bool (*)(Interpreter&, Args&);  // the tested value is the first positional argument

Test find_test(std::string_view name);  // null when there is none

}  // namespace quaver::jinja
