#include "server/default_params.h"

#include <algorithm>
#include <array>

#include "server/errors.h"
#include "server/image_fields.h"

namespace quaver::server {
namespace {

constexpr const char* kFlag = "default-sampling-params";

struct DefaultRow {
  std::string_view name;
  ModelKind kind;
  bool is_text = false;  // else a number
};
constexpr std::array kDefaults = {
    DefaultRow{"temperature", ModelKind::kText},
    DefaultRow{"top_p", ModelKind::kText},
    DefaultRow{"top_k", ModelKind::kText},
    DefaultRow{"min_p", ModelKind::kText},
    DefaultRow{"repetition_penalty", ModelKind::kText},
    DefaultRow{"frequency_penalty", ModelKind::kText},
    DefaultRow{"presence_penalty", ModelKind::kText},
    DefaultRow{"max_tokens", ModelKind::kText},
    DefaultRow{"max_new_tokens", ModelKind::kText},
    DefaultRow{"num_inference_steps", ModelKind::kPictures},
    DefaultRow{"guidance_scale", ModelKind::kPictures},
    DefaultRow{"true_cfg_scale", ModelKind::kPictures},
    DefaultRow{"max_sequence_length", ModelKind::kPictures},
    DefaultRow{"strength", ModelKind::kPictures},
    DefaultRow{"negative_prompt", ModelKind::kPictures, true},
    DefaultRow{"size", ModelKind::kPictures, true},
};

[[noreturn]] void refuse_default(const std::string& what) {
  throw Error(ErrorKind::kInvalidInput, cat(kFlag, ": ", what), kFlag);
}

}  // namespace

void check_default_params(const json& params, std::optional<ModelKind> kind) {
  require(params.is_object(), ErrorKind::kInvalidInput, kFlag, " must be a JSON object");
  for (const auto& [name, value] : params.items()) {
    auto row = std::ranges::find(kDefaults, name, &DefaultRow::name);
    if (row == kDefaults.end()) refuse_default(cat("'", name, "' is not a parameter with a default"));
    if (kind && row->kind != *kind)
      refuse_default(cat("'", name, "' is a parameter of models that make ",
                         row->kind == ModelKind::kText ? "text" : "pictures"));
    if (row->is_text ? !value.is_string() : !value.is_number())
      refuse_default(cat("'", name, "' must be ", row->is_text ? "text" : "a number"));
  }
}

pipeline::ImageRequest image_defaults_of(const json& params) {
  json body = params;
  body["prompt"] = "any";
  try {
    Fields fields(std::move(body));
    pipeline::ImageRequest defaults = read_image_fields(fields, ImageRoute::kGenerations).request;
    fields.finish();
    return defaults;
  } catch (const ApiError& e) {
    refuse_default(e.what());
  }
}

}  // namespace quaver::server
