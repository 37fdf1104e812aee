#include "server/form_fields.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/cat.h"
#include "server/errors.h"

namespace quaver::server {
namespace {

enum class FieldKind { kInteger, kNumber, kSwitch, kJson };

struct FieldRow {
  std::string_view name;
  FieldKind kind;
};
constexpr std::array kFieldKinds = {
    FieldRow{"n", FieldKind::kInteger},
    FieldRow{"num_outputs_per_prompt", FieldKind::kInteger},
    FieldRow{"width", FieldKind::kInteger},
    FieldRow{"height", FieldKind::kInteger},
    FieldRow{"num_inference_steps", FieldKind::kInteger},
    FieldRow{"max_sequence_length", FieldKind::kInteger},
    FieldRow{"seed", FieldKind::kInteger},
    FieldRow{"output_compression", FieldKind::kInteger},
    FieldRow{"partial_images", FieldKind::kInteger},
    FieldRow{"layers", FieldKind::kInteger},
    FieldRow{"resolution", FieldKind::kInteger},
    FieldRow{"guidance_scale", FieldKind::kNumber},
    FieldRow{"guidance_scale_2", FieldKind::kNumber},
    FieldRow{"true_cfg_scale", FieldKind::kNumber},
    FieldRow{"cfg_scale", FieldKind::kNumber},
    FieldRow{"flow_shift", FieldKind::kNumber},
    FieldRow{"strength", FieldKind::kNumber},
    FieldRow{"stream", FieldKind::kSwitch},
    FieldRow{"return_stage_metrics", FieldKind::kSwitch},
    FieldRow{"vae_use_slicing", FieldKind::kSwitch},
    FieldRow{"vae_use_tiling", FieldKind::kSwitch},
    FieldRow{"lora", FieldKind::kJson},
    FieldRow{"extra_args", FieldKind::kJson},
    FieldRow{"extra_params", FieldKind::kJson},
    FieldRow{"extra_body", FieldKind::kJson},
};

template <class Number>
json number_of(const std::string& text) {
  Number value;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? json(value) : json(text);
}

json switch_of(const std::string& text) {
  std::string lowered = text;
  for (char& c : lowered) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* yes : {"true", "1", "on", "yes"})
    if (lowered == yes) return true;
  for (const char* no : {"false", "0", "off", "no"})
    if (lowered == no) return false;
  return text;
}

json structure_of(const std::string& text) {
  try {
    return parse_json(text, "the field");
  } catch (const Error&) {
    return text;
  }
}

json value_of(std::string_view name, const std::string& text) {
  auto row = std::ranges::find(kFieldKinds, name, &FieldRow::name);
  if (row == kFieldKinds.end()) return text;
  switch (row->kind) {
    case FieldKind::kInteger:
      return number_of<int64_t>(text);
    case FieldKind::kNumber:
      return number_of<double>(text);
    case FieldKind::kSwitch:
      return switch_of(text);
    case FieldKind::kJson:
      return structure_of(text);
  }
  return text;
}

// The library's own check, which its writer makes.
bool is_utf8(const std::string& text) {
  try {
    json(text).dump();
    return true;
  } catch (const json::type_error&) {
    return false;
  }
}

}  // namespace

json form_json(std::span<const FormPart> parts) {
  json out = json::object();
  for (const FormPart& part : parts) {
    if (part.file_name) continue;
    const std::string name =
        part.name.ends_with("[]") ? part.name.substr(0, part.name.size() - 2) : part.name;
    const std::string text(part.data);
    if (!is_utf8(name) || !is_utf8(text))
      throw ApiError(400, "Bad Request", "a field of the form is not UTF-8",
                     is_utf8(name) ? cat("body.", name) : "body");
    if (out.contains(name))
      throw ApiError(400, "Bad Request", cat("the field '", name, "' stands twice in the form"),
                     cat("body.", name));
    out[name] = value_of(name, text);
  }
  return out;
}

}  // namespace quaver::server
