// From checked fields to a run of the engine: what the routes that make pictures do last.
#pragma once

#include <string>

#include "server/call.h"
#include "server/image_answer.h"
#include "server/image_fields.h"

namespace quaver::server {

// Fills in the model's defaults and queues the request; throws what the pipeline refuses.
void order_pictures(Call& call, ImageWish wish, ImageRoute route, std::string model_name);

}  // namespace quaver::server
