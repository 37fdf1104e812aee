// The text parts of a form as the object that a JSON route would have got.
#pragma once

#include <span>

#include "base/json.h"
#include "server/multipart.h"

namespace quaver::server {

// Values of fields that are numbers, switches or JSON on the JSON routes are read as such; what can't be read
// so stays text, which Fields then refuses by name. A name ending in [] loses it. Files are left out. Throws
// ApiError 400 for a field that stands twice and for text that is no UTF-8.
json form_json(std::span<const FormPart> parts);

}  // namespace quaver::server
