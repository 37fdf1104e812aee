#include "models/text_encoder/tokenizer_settings.h"

namespace quaver::models {

TokenizerSettings::File TokenizerSettings::read(const std::filesystem::path& file) {
  json object = std::filesystem::exists(file) ? read_json_file(file.string()) : json::object();
  require(object.is_object(), ErrorKind::kBadFile, file.string(), ": must be a JSON object");
  return {file.string(), std::move(object)};
}

TokenizerSettings::TokenizerSettings(const std::filesystem::path& folder)
    : config_(read(folder / "tokenizer_config.json")), map_(read(folder / "special_tokens_map.json")) {}

std::optional<std::string> TokenizerSettings::special_token(const char* key) const {
  for (const File* file : {&config_, &map_}) {
    const json value = json_value<json>(file->object, key, nullptr, file->path);
    if (value.is_null()) continue;
    if (value.is_object()) return json_required<std::string>(value, "content", cat(file->path, ": ", key));
    return json_required<std::string>(file->object, key, file->path);
  }
  return std::nullopt;
}

std::string TokenizerSettings::text(const char* key) const {
  return json_value<std::string>(config_.object, key, "", config_.path);
}

}  // namespace quaver::models
