#include "checkpoint/printable.h"

namespace quaver {

std::string printable(std::string_view name, size_t max_bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "'";
  for (char c : name.substr(0, max_bytes)) {
    auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out.push_back(c);
    } else {
      out.append({'\\', 'x', kHex[byte >> 4], kHex[byte & 15]});
    }
  }
  if (name.size() > max_bytes) out += "...";
  return out + "'";
}

}  // namespace quaver
