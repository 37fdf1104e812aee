#include "server/image_fields.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "server/errors.h"
#include "server/lora_field.h"

namespace quaver::server {
namespace {

// Ranges that the API itself states; the pipeline checks everything again, and what depends on the model.
constexpr pipeline::ImageRequestLimits kStated;

struct WantedSize {
  int64_t width, height;
};

// "640x480", nothing else.
std::optional<WantedSize> parse_size(const std::string& text) {
  WantedSize size{};
  const char* end = text.data() + text.size();
  auto [cross, bad_width] = std::from_chars(text.data(), end, size.width);
  if (bad_width != std::errc() || cross == end || *cross != 'x' || text.front() == '-') return std::nullopt;
  auto [rest, bad_height] = std::from_chars(cross + 1, end, size.height);
  if (bad_height != std::errc() || rest != end || cross[1] == '-') return std::nullopt;
  return size;
}

void read_size(Fields& fields, pipeline::ImageRequest& request, bool auto_allowed) {
  request.width = fields.integer("width");
  request.height = fields.integer("height");
  for (const char* side : {"width", "height"})
    if (fields.raw(side) && !fields.raw(side == std::string_view("width") ? "height" : "width"))
      fields.missing(side == std::string_view("width") ? "height" : "width");
  const std::optional<std::string> text = fields.text("size");
  if (!text || (auto_allowed && *text == "auto")) return;
  if (fields.raw("width") || fields.raw("height"))
    return fields.wrong("value_error", "size", "stands beside width and height; give one of them", *text);
  const std::optional<WantedSize> size = parse_size(*text);
  if (!size)
    return fields.wrong(
        "string_pattern_mismatch", "size",
        auto_allowed ? "must be WIDTHxHEIGHT in pixels, or auto" : "must be WIDTHxHEIGHT in pixels", *text);
  request.width = size->width;
  request.height = size->height;
}

// The first of two spellings that is there; both are wrong.
template <class Value>
std::optional<Value> either(Fields& fields, const char* name, const char* alias,
                            const std::optional<Value>& first, const std::optional<Value>& second) {
  if (fields.raw(name) && fields.raw(alias))
    fields.wrong("value_error", alias, cat("is another name of ", name, "; give one of them"),
                 *fields.raw(alias));
  return first ? first : second;
}

// Parameters that some models have and others have not, in the object that the contract keeps for them.
void read_extra_arguments(Fields& fields, pipeline::ImageRequest& request) {
  constexpr const char* kKnown = "max_sequence_length";
  for (const char* name : {"extra_args", "extra_params"}) {
    const json* extra = fields.object(name);
    if (!extra) continue;
    for (const auto& [key, value] : extra->items()) {
      const std::string path = cat(name, ".", key);
      if (key != kKnown)
        fields.wrong("extra_forbidden", path, cat("is not known; known is ", kKnown), value);
      else if (request.text_tokens)
        fields.wrong("value_error", path, cat("stands in two places: ", path, " and another one"), value);
      else
        request.text_tokens = fields.check_integer(value, path, {});
    }
  }
}

// What would change the picture and is not there.
void refuse_what_is_not_there(Fields& fields) {
  struct Row {
    const char* name;
    const char* what;
  };
  static constexpr std::array kRows = {
      Row{"layers", "layered pictures"},
      Row{"flow_shift", "another shift of the schedule"},
      Row{"guidance_scale_2", "a second expert's guidance"},
      Row{"num_frames", "video"},
      Row{"resolution", "a resolution without a shape; give a size"},
      Row{"bot_task", "a task of another model"},
      Row{"sys_type", "a system prompt"},
      Row{"system_prompt", "a system prompt"},
      Row{"use_system_prompt", "a system prompt"},
      Row{"infer_align_image_size", "a size of the model's own choice"},
      Row{"reference_image", "a reference beside the picture that is edited"},
  };
  for (const Row& row : kRows) {
    const json* value = fields.raw(row.name);
    const bool asks = value && *value != json("") && *value != json("None") && *value != json(false) &&
                      !(value->is_object() && value->empty()) && *value != json(1);
    if (asks && fields.good())
      throw refused(cat("'", row.name, "' asks for ", row.what, ", which this model does not take"),
                    cat("body.", row.name));
  }
}

void read_reply_options(Fields& fields, ImageRoute route, ImageWish& wish) {
  static constexpr std::array<std::string_view, 2> kForms = {"b64_json", "file"};
  static constexpr std::array<std::string_view, 3> kBackgrounds = {"auto", "opaque", "transparent"};
  const std::span<const std::string_view> forms(kForms.data(), route == ImageRoute::kGenerations ? 2 : 1);
  wish.reply.as_file = fields.word("response_format", forms).value_or("b64_json") == "file";
  std::vector<std::string_view> names;
  for (const PictureFormat& format : picture_formats()) names.push_back(format.name);
  const std::string name = fields.word("output_format", names).value_or("png");
  wish.reply.format = &picture_format(std::ranges::find(names, name) == names.end() ? "png" : name);
  wish.reply.quality = static_cast<int>(fields.integer("output_compression", {0, 100}).value_or(100));
  wish.request.previews = fields.integer("partial_images", {0, kStated.max_previews}).value_or(0);
  if (wish.reply.stream && wish.reply.as_file)
    fields.wrong("value_error", "response_format", "cannot be file in a stream", "file");
  if (wish.request.previews > 0 && !wish.reply.stream)
    fields.wrong("value_error", "partial_images", "needs stream to be true", wish.request.previews);
  fields.word("background", kBackgrounds);
}

std::string read_prompt(Fields& fields) {
  if (!fields.raw("prompt")) return fields.missing("prompt"), "";
  return fields.text("prompt").value_or("");
}

}  // namespace

void read_image_parameters(Fields& fields, pipeline::ImageRequest& request) {
  request.negative_prompt = fields.text("negative_prompt").value_or("");
  request.steps = fields.integer("num_inference_steps", {1, kStated.max_steps});
  request.text_tokens = fields.integer("max_sequence_length");
  const NumberRange scale{0, kStated.max_guidance};
  request.guidance_scale = fields.number("guidance_scale", scale);
  request.true_cfg_scale = either(fields, "true_cfg_scale", "cfg_scale",
                                  fields.number("true_cfg_scale", scale), fields.number("cfg_scale", scale));
  request.strength = fields.number("strength");
  if (auto seed = fields.integer("seed", {0, INT64_MAX})) request.seed = static_cast<uint64_t>(*seed);
  request.adapter = read_lora(fields);
  read_extra_arguments(fields, request);
  refuse_what_is_not_there(fields);
}

ImageWish read_image_fields(Fields& fields, ImageRoute route) {
  ImageWish wish;
  wish.reply.stream = fields.boolean("stream").value_or(false);
  read_image_parameters(fields, wish.request);
  read_size(fields, wish.request, route != ImageRoute::kGenerations);
  const IntRange count{1, kStated.max_count};
  wish.request.count = either(fields, "n", "num_outputs_per_prompt", fields.integer("n", count),
                              fields.integer("num_outputs_per_prompt", count))
                           .value_or(1);
  if (route == ImageRoute::kChat) {
    wish.reply.format = &picture_format("png");
  } else {
    wish.request.prompt = read_prompt(fields);
    read_reply_options(fields, route, wish);
  }
  // Without effect here: seeds draw the same noise on every device, and the operator decides how the
  // autoencoder works.
  for (const char* name : {"user", "generator_device", "quality", "style", "moderation", "input_fidelity"})
    fields.text(name);
  for (const char* name : {"vae_use_slicing", "vae_use_tiling", "return_stage_metrics"}) fields.boolean(name);
  return wish;
}

void fill_in(pipeline::ImageRequest& request, const pipeline::ImageRequest& defaults) {
  const auto fill = [](auto& value, const auto& other) {
    if (!value) value = other;
  };
  if (request.negative_prompt.empty()) request.negative_prompt = defaults.negative_prompt;
  fill(request.steps, defaults.steps);
  fill(request.text_tokens, defaults.text_tokens);
  fill(request.guidance_scale, defaults.guidance_scale);
  fill(request.true_cfg_scale, defaults.true_cfg_scale);
  if (request.source) return fill(request.strength, defaults.strength);
  if (request.width || request.height) return;
  request.width = defaults.width;
  request.height = defaults.height;
}

}  // namespace quaver::server
