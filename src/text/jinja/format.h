// Text formatting: the % operator, str.format, HTML escaping.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/interpreter.h"

namespace quaver::jinja {

// & < > ' " as entities.
std::string escape_html(std::string_view s);

// format % arguments. Precondition: format is a string.
Value printf_format(Interpreter& interpreter, const Value& format, const Value& arguments);

// format.format(*args, **kwargs).
std::string str_format(Interpreter& interpreter, const std::string& format, const Args& args);

// format(v, spec).
std::string format_value(Interpreter& interpreter, const Value& v, std::string_view spec);

struct NumberStyle {
  char type = 0;    // d b o x X e E f F g G % or 0
  char sign = '-';  // what stands before a number that is not negative: + space, or - for nothing
  bool alternate = false;
  char grouping = 0;   // , _ or 0
  int precision = -1;  // -1 = the default
};
// Sign and digits, not yet padded.
std::string format_integer(int64_t i, const NumberStyle& style);
std::string format_float(double d, const NumberStyle& style);

// Pads to `width` code points; align is < > ^ or = (after the sign).
std::string pad(std::string_view body, std::string_view fill, char align, size_t width);

}  // namespace quaver::jinja
