#include "server/http_types.h"

namespace quaver::server {

const std::string* HttpRequest::header(std::string_view lower_case_name) const {
  const std::string* found = nullptr;
  for (const auto& [name, value] : headers) {
    if (name != lower_case_name) continue;
    if (found) return nullptr;
    found = &value;
  }
  return found;
}

}  // namespace quaver::server
