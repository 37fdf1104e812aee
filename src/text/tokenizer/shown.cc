// Shortens and escapes text for error messages.
#include "text/tokenizer/shown.h"

#include "text/tokenizer/utf8.h"

namespace quaver::text {

std::string shown(std::string_view text) {
  constexpr size_t kMost = 80;
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (out.size() >= kMost) return out + "...";
    const auto byte = static_cast<unsigned char>(text[i]);
    const Utf8Scan scan = utf8_scan(text, i);
    if (byte >= 0x20 && byte != 0x7F && scan.status == Utf8Status::kWhole) {
      out += text.substr(i, scan.length);
      i += scan.length;
    } else {
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
      ++i;
    }
  }
  return out;
}

}  // namespace quaver::text
