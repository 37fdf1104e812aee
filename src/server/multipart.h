// Bodies of forms: multipart/form-data, RFC 7578 over RFC 2046, without what browsers and clients never send.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_types.h"

namespace quaver::server {

struct FormPart {
  std::string name;
  std::optional<std::string> file_name;  // set for files, whatever their content
  std::string_view data;                 // into the request's body
};

struct FormLimits {
  size_t parts = 64;
  size_t header_bytes = 4096;  // of one part
};

// Parts in the order of the body; names may repeat. Throws ApiError 400 that says what is wrong and where:
// another content type, no usable boundary, text before the first part, a cut-off body, a part without a
// name, a transfer encoding other than none, more than the limits.
std::vector<FormPart> parse_form(const HttpRequest& request, const FormLimits& limits = {});

}  // namespace quaver::server
