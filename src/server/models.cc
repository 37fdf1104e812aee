// GET /v1/models: the names the model answers to, and what it can do.
#include <algorithm>

#include "server/endpoints.h"
#include "server/errors.h"
#include "server/served_model.h"
#include "server/sse.h"

namespace quaver::server {
namespace {

ordered_json permission(const std::string& name, int64_t created) {
  return {{"id", cat("modelperm-", name)},
          {"object", "model_permission"},
          {"created", created},
          {"allow_create_engine", false},
          {"allow_sampling", true},
          {"allow_logprobs", true},
          {"allow_search_indices", false},
          {"allow_view", true},
          {"allow_fine_tuning", false},
          {"organization", "*"},
          {"group", nullptr},
          {"is_blocking", false}};
}

// What a request for pictures may leave out, and what sizes are legal.
ordered_json pictures_json(const diffusion::ImageFacts& facts) {
  ordered_json adapters = ordered_json::array();
  for (const diffusion::Adapter& adapter : facts.adapters)
    adapters.push_back({{"name", adapter.name}, {"scale", adapter.scale}, {"always", adapter.always}});
  return {{"size_unit", facts.unit},
          {"default_size", cat(facts.default_width, "x", facts.default_height)},
          {"num_inference_steps", facts.defaults.steps},
          {"guidance_scale", facts.defaults.guidance_scale},
          {"max_sequence_length", facts.defaults.text_tokens},
          {"adapters", std::move(adapters)}};
}

ordered_json model_json(const ServedModel& model, const std::string& name, int64_t created) {
  const pipeline::ModelCard& card = model.pipeline.card();
  ordered_json out = {{"id", name}, {"object", "model"}, {"created", created}, {"owned_by", "quaver"}};
  out["root"] = card.path;
  out["parent"] = nullptr;
  out["max_model_len"] = card.max_model_len > 0 ? ordered_json(card.max_model_len) : ordered_json();
  out["permission"] = ordered_json::array({permission(name, created)});
  out["capabilities"] = card.capabilities;
  out["quantization"] = card.quantization;
  if (const pipeline::ImagePipeline* images = model.pipeline.images())
    out["image_generation"] = pictures_json(images->facts());
  return out;
}

}  // namespace

void list_models(Call call) {
  ordered_json data = ordered_json::array();
  for (const std::string& name : call.model->names)
    data.push_back(model_json(*call.model, name, call.state.started_at));
  call.reply->send(json_response({{"object", "list"}, {"data", std::move(data)}}));
}

void show_model(Call call) {
  const auto& names = call.model->names;
  const std::string& wanted = call.request.captures.front();
  if (std::find(names.begin(), names.end(), wanted) == names.end())
    throw ApiError(404, "NotFoundError",
                   cat("model_not_found: the model '", wanted.substr(0, 200), "' does not exist here"),
                   "model");
  call.reply->send(json_response(model_json(*call.model, wanted, call.state.started_at)));
}

}  // namespace quaver::server
