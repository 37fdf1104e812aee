#include "checkpoint/lora_settings.h"

#include <cmath>

namespace quaver {

namespace {

constexpr std::string_view kAlphaKey = "lora_alpha";

double read_alpha(const json& value, const std::string& key, const std::string& what) {
  const double alpha = value.is_number() ? value.get<double>() : NAN;
  if (!std::isfinite(alpha))
    throw Error(ErrorKind::kBadFile,
                cat(what, ": key '", key, "' is ", value.dump().substr(0, 80), ", expected a number"), key);
  return alpha;
}

// True where `key` names the layer: as PEFT reads it, the whole name or its end behind a dot.
bool names_layer(std::string_view key, std::string_view layer) {
  if (!layer.ends_with(key)) return false;
  return layer.size() == key.size() || layer[layer.size() - key.size() - 1] == '.';
}

// PEFT takes keys for regular expressions; those that writers make are names.
std::string plain_key(std::string key, const std::string& what) {
  if (key.starts_with('^')) key.erase(0, 1);
  require(key.find_first_of("^$*+?()[]{}|\\") == std::string::npos, ErrorKind::kUnsupported, what,
          ": alpha_pattern has the key '", key, "', expected the name of a layer");
  return key;
}

}  // namespace

LoraSettings::LoraSettings(const json& object, const std::string& what) {
  require(object.is_object(), ErrorKind::kBadFile, what, ": is no JSON object");
  for (const auto& [key, value] : object.items())
    if (key == kAlphaKey || key.ends_with(cat(".", kAlphaKey)))
      groups_.push_back(read_group(object, key.substr(0, key.size() - kAlphaKey.size()), what));
}

LoraSettings::Group LoraSettings::read_group(const json& object, const std::string& prefix,
                                             const std::string& what) {
  const auto key = [&](const char* name) { return prefix + name; };
  Group group;
  group.component = prefix.empty() ? prefix : prefix.substr(0, prefix.size() - 1);
  group.alpha = read_alpha(object.at(prefix + std::string(kAlphaKey)), prefix + std::string(kAlphaKey), what);
  group.by_root = json_value(object, key("use_rslora").c_str(), false, what);
  for (const char* more : {"use_dora", "lora_bias"})
    require(!json_value(object, key(more).c_str(), false, what), ErrorKind::kUnsupported, what, ": key '",
            key(more), "' is true; only plain LoRA is supported");
  const std::string pattern = key("alpha_pattern");
  const json alphas = json_value(object, pattern.c_str(), json::object(), what);
  for (const auto& [name, value] : alphas.items())
    group.alphas[plain_key(name, what)] = read_alpha(value, cat(pattern, ".", name), what);
  return group;
}

double LoraSettings::scale(std::string_view layer, int64_t rank) const {
  for (const Group& group : groups_) {
    if (!group.component.empty() && !layer.starts_with(group.component + ".")) continue;
    double alpha = group.alpha;
    for (const auto& [key, own] : group.alphas)
      if (names_layer(key, layer)) alpha = own;
    return alpha / (group.by_root ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank));
  }
  return 1;
}

}  // namespace quaver
