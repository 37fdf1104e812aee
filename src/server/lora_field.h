// The field `lora` of picture requests: which adapter, how strongly.
#pragma once

#include <optional>

#include "pipeline/image_request.h"
#include "server/fields.h"

namespace quaver::server {

// An object; null, "", "None" and {} ask for none. Notes what is wrong in `fields`.
std::optional<pipeline::AdapterChoice> read_lora(Fields& fields);

}  // namespace quaver::server
