#include "checkpoint/byte_size.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>

#include "base/error.h"
#include "checkpoint/printable.h"

namespace quaver {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array kUnits = {
    Unit{"", 1},      Unit{"b", 1},        Unit{"kb", 1e3},     Unit{"mb", 1e6},     Unit{"gb", 1e9},
    Unit{"tb", 1e12}, Unit{"kib", 0x1p10}, Unit{"mib", 0x1p20}, Unit{"gib", 0x1p30}, Unit{"tib", 0x1p40}};

}  // namespace

uint64_t parse_byte_size(std::string_view text, std::string_view what) {
  double number = 0;
  auto [rest, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  std::string unit(rest, text.data() + text.size());
  if (unit.starts_with(' ')) unit.erase(0, 1);
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const Unit& row : kUnits) {
    if (error != std::errc() || row.name != unit) continue;
    double bytes = std::floor(number * row.bytes);
    require(bytes >= 1 && bytes < 0x1p63, ErrorKind::kInvalidInput, what, ": size ", printable(text),
            " is out of range");
    return static_cast<uint64_t>(bytes);
  }
  fail(ErrorKind::kInvalidInput, what, ": ", printable(text),
       " is not a size; expected one like 5GB or 500MiB");
}

}  // namespace quaver
