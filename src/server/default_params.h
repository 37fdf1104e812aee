// The values that an operator sets for what requests leave open: which there are, and that they are usable.
#pragma once

#include <optional>

#include "base/json.h"
#include "pipeline/image_request.h"

namespace quaver::server {

enum class ModelKind { kText, kPictures };

// Throws Error(kInvalidInput) that names the flag: no object, a name that is unknown or belongs to the other
// kind of model, a value of the wrong type. Without a kind the names of both are good.
void check_default_params(const json& params, std::optional<ModelKind> kind = std::nullopt);

// Of a picture model. Throws Error(kInvalidInput) for values that no request could have.
pipeline::ImageRequest image_defaults_of(const json& params);

}  // namespace quaver::server
