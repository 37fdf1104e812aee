#include "formats/quantization_config.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/mapped_file.h"
#include "formats/member_order.h"

namespace quaver {
namespace {

using Path = std::vector<std::string>;

// Files that older producers wrote beside config.json, and whose they are when they don't say so.
struct SidecarFile {
  const char* name;
  const char* method;
};
constexpr std::array kSidecars = {
    SidecarFile{"hf_quant_config.json", "modelopt"},
    SidecarFile{"quantization_config.json", "auto-round"},
    SidecarFile{"quantize_config.json", "gptq"},
    SidecarFile{"quant_config.json", "awq"},
};

const json* member(const json& object, const std::string& key) {
  if (!object.is_object()) return nullptr;
  auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

// Depth first through sub-configs, whose keys end in "config".
std::optional<Path> find_nested(const json& config, int depth) {
  if (!config.is_object() || depth == 0) return std::nullopt;
  for (const auto& [key, value] : config.items()) {
    if (!key.ends_with("config") || !value.is_object()) continue;
    if (member(value, "quantization_config")) return Path{key, "quantization_config"};
    if (auto below = find_nested(value, depth - 1)) {
      below->insert(below->begin(), key);
      return below;
    }
  }
  return std::nullopt;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

// One producer once wrote its name and no method.
std::string method_of_producer(const json& settings) {
  const json* producer = member(settings, "producer");
  const json* name = producer ? member(*producer, "name") : nullptr;
  return name && *name == "modelopt" ? "modelopt" : "";
}

QuantizationConfig make_config(const Checkpoint& checkpoint, const json& value, std::string file, Path path,
                               std::string fallback_method) {
  const std::string what = (checkpoint.path() / file).string();
  require(value.is_object(), ErrorKind::kBadFile, what, ": the quantization settings must be an object");
  if (fallback_method.empty()) fallback_method = method_of_producer(value);
  std::string method =
      lower(json_value<std::string>(value, "quant_method", std::move(fallback_method), what));
  require(!method.empty(), ErrorKind::kBadFile, what,
          ": key 'quant_method' is missing from the quantization settings");
  return {value, std::move(file), std::move(path), std::move(method)};
}

std::string sidecar_method(const SidecarFile& file, const json& value) {
  const bool awq_keys = value.is_object() && (value.contains("zero_point") || value.contains("w_bit"));
  return std::string(file.method) == "gptq" && awq_keys ? "awq" : file.method;
}

}  // namespace

std::optional<QuantizationConfig> find_quantization_config(const Checkpoint& checkpoint) {
  const json& config = checkpoint.config();
  for (const char* key : {"quantization_config", "compression_config"})
    if (const json* value = member(config, key))
      return make_config(checkpoint, *value, "config.json", {key}, "");
  if (auto path = find_nested(config, 4)) {
    const json* value = &config;
    for (const std::string& key : *path) value = &value->at(key);
    return make_config(checkpoint, *value, "config.json", *path, "");
  }
  for (const SidecarFile& file : kSidecars) {
    const json value = checkpoint.sidecar(file.name);
    if (!value.is_null()) return make_config(checkpoint, value, file.name, {}, sidecar_method(file, value));
  }
  return std::nullopt;
}

std::vector<std::pair<std::string, json>> ordered_members(const Checkpoint& checkpoint,
                                                          const QuantizationConfig& config, const char* key) {
  const json* rules = member(config.value, key);
  if (!rules) return {};
  const std::filesystem::path file = checkpoint.path() / config.file;
  require(rules->is_object(), ErrorKind::kBadFile, file.string(), ": key '", key, "' must be an object");
  std::vector<std::string> order;
  std::error_code ignored;
  if (rules->size() > 1 && std::filesystem::is_regular_file(file, ignored)) {
    Path path = config.path;
    path.emplace_back(key);
    order = member_order(read_text_file(file, JsonLimits{}.max_bytes), path);
  }
  std::vector<std::pair<std::string, json>> members;
  for (const std::string& name : order)
    if (const auto it = rules->find(name); it != rules->end()) members.emplace_back(name, *it);
  if (members.size() == rules->size()) return members;
  members.clear();  // a checkpoint that lies in memory has only the parsed order
  for (const auto& [name, body] : rules->items()) members.emplace_back(name, body);
  return members;
}

}  // namespace quaver
