// The header before the comma, then base64.
#include "media/data_url.h"

#include <algorithm>
#include <cctype>

#include "base/base64.h"
#include "base/error.h"

namespace quaver {
namespace {

constexpr std::string_view kScheme = "data:";

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

// RFC 7231's tokens: one on each side of the slash.
bool is_media_type(std::string_view text) {
  const auto is_token = [](std::string_view part) {
    return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
             std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
    });
  };
  const size_t slash = text.find('/');
  return slash != std::string_view::npos && is_token(text.substr(0, slash)) &&
         is_token(text.substr(slash + 1));
}

// The most that stands before the comma in any real one; keeps the search for it short.
constexpr size_t kMaxHeader = 256;

}  // namespace

bool is_data_url(std::string_view url) { return lower(url.substr(0, kScheme.size())) == kScheme; }

DataUrl parse_data_url(std::string_view url, std::string_view what, size_t max_bytes) {
  const auto check = [&](bool sound, const auto&... reason) {
    require(sound, ErrorKind::kInvalidInput, what, ": ", reason...);
  };
  check(is_data_url(url), "expected a data URL");
  const size_t comma = url.substr(0, kMaxHeader).find(',');
  check(comma != std::string_view::npos,
        "expected data:TYPE/SUBTYPE;base64,DATA, found no comma in the first ", kMaxHeader, " characters");
  const std::string header = lower(url.substr(kScheme.size(), comma - kScheme.size()));
  check(header.ends_with(";base64"), "expected a data URL in base64");
  DataUrl out{.media_type = header.substr(0, header.find(';')), .bytes = {}};
  check(is_media_type(out.media_type), "expected TYPE/SUBTYPE after 'data:'");
  const std::string_view encoded = url.substr(comma + 1);
  check(!encoded.empty(), "the data URL holds no data");
  check(encoded.size() / 4 <= max_bytes / 3 + 1, "the data URL has ", encoded.size(),
        " characters for at most ", max_bytes, " bytes");
  auto bytes = base64_decode(encoded);
  check(bytes.has_value(), "the data URL is not valid base64");
  check(bytes->size() <= max_bytes, "the data URL holds ", bytes->size(), " bytes, more than the ", max_bytes,
        " allowed");
  out.bytes = std::move(*bytes);
  return out;
}

}  // namespace quaver
