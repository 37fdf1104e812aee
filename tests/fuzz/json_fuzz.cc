// Any bytes as JSON: a value that survives being written and read again, or an Error with a message on one
// line.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    quaver::json value = quaver::parse_json({reinterpret_cast<const char*>(data), size}, "x.json");
    if (quaver::parse_json(value.dump(), "again").dump() != value.dump()) std::abort();
  } catch (const quaver::Error& e) {
    if (std::string_view(e.what()).find('\n') != std::string_view::npos) std::abort();
    if (std::string_view(e.what()).starts_with("again")) std::abort();
  }
  return 0;
}
