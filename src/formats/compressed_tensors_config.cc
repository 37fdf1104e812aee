#include "formats/compressed_tensors_config.h"

#include <algorithm>

#include "formats/compressed_tensors_args.h"
#include "formats/packed_config.h"

namespace quaver {
namespace {

CompressedTarget make_target(const std::string& text, const std::string& what) {
  CompressedTarget target{.text = text};
  if (text.starts_with("re:")) {
    target.pattern = NamePattern::match_start(text.substr(3), what);
    return target;
  }
  const bool is_class =
      !text.empty() && text[0] >= 'A' && text[0] <= 'Z' && text.find('.') == std::string::npos;
  if (is_class)
    target.every_linear = text.ends_with("Linear");
  else
    target.pattern = NamePattern::name(text);
  return target;
}

std::vector<CompressedTarget> read_targets(const json& object, const char* key, const std::string& what) {
  std::vector<CompressedTarget> targets;
  for (const std::string& text : json_value<std::vector<std::string>>(object, key, {}, what))
    targets.push_back(make_target(text, cat(what, ": key '", key, "'")));
  return targets;
}

bool is_attention_only(const std::vector<CompressedTarget>& targets) {
  return std::all_of(targets.begin(), targets.end(), [](const CompressedTarget& target) {
    return !target.pattern && target.text.find("Attention") != std::string::npos;
  });
}

// Groups for attention say how the cache is kept, which the cache's own key says, too.
std::optional<CompressedGroup> read_group(const std::string& name, const json& body, const json& settings,
                                          const std::string& what) {
  const std::string where = cat(what, ": config_groups '", name.substr(0, 80), "'");
  require(body.is_object(), ErrorKind::kBadFile, where, ": must be an object");
  CompressedGroup group{.targets = read_targets(body, "targets", where)};
  require(!group.targets.empty(), ErrorKind::kBadFile, where, ": key 'targets' names nothing");
  if (is_attention_only(group.targets)) return std::nullopt;
  refuse_keys(body, {"output_activations"}, where);
  require(body.contains("weights") && !body.at("weights").is_null(), ErrorKind::kUnsupported, where,
          ": has no 'weights'; quantized activations alone are not supported");
  const std::string whole = json_value<std::string>(settings, "format", "", what);
  const std::string format = json_value<std::string>(body, "format", whole, where);
  group.scheme = parse_compressed_weights(body.at("weights"), format, where + " weights");
  group.scheme.activation =
      parse_compressed_activation(body.value("input_activations", json()), where + " input_activations");
  if (group.scheme.scale == ScaleCodec::kE5M3) group.scheme.activation.scale = ScaleCodec::kE5M3;
  return group;
}

// Weights that no tool stores sparse say "dense".
void refuse_sparsity(const json& settings, const std::string& what) {
  const json sparsity = settings.value("sparsity_config", json());
  if (sparsity.is_object() && json_value<std::string>(sparsity, "format", "", what) == "dense") return;
  refuse_keys(settings, {"sparsity_config"}, what);
}

std::shared_ptr<const void> read_settings(const Checkpoint& checkpoint) {
  const auto config = find_quantization_config(checkpoint);
  require(config.has_value(), ErrorKind::kBadFile, checkpoint.path().string(),
          ": has no quantization settings");
  const std::string what = (checkpoint.path() / config->file).string();
  refuse_keys(config->value, {"transform_config"}, what);
  refuse_sparsity(config->value, what);
  auto settings = std::make_shared<CompressedSettings>();
  for (const auto& [name, body] : ordered_members(checkpoint, *config, "config_groups"))
    if (auto group = read_group(name, body, config->value, what))
      settings->groups.push_back(std::move(*group));
  settings->ignored = read_targets(config->value, "ignore", what);
  const json cache = config->value.value("kv_cache_scheme", json());
  if (!cache.is_null()) settings->kv_cache = parse_compressed_kv_cache(cache, what + ": kv_cache_scheme");
  return settings;
}

}  // namespace

int CompressedTarget::rank(std::string_view layer) const {
  if (!pattern) return every_linear ? 1 : 0;
  const NamePattern::Fit fit = pattern->fit(layer);
  return fit == NamePattern::kNone ? 0 : 1 + static_cast<int>(fit);
}

std::vector<WeightScheme> CompressedSettings::candidates(std::string_view layer) const {
  std::vector<std::pair<int, WeightScheme>> ranked;
  for (const CompressedGroup& group : groups) {
    const CompressedTarget* best = nullptr;
    for (const CompressedTarget& target : group.targets)
      if (target.rank(layer) > (best ? best->rank(layer) : 0)) best = &target;
    if (!best) continue;
    WeightScheme& scheme = ranked.emplace_back(best->rank(layer), group.scheme).second;
    scheme.rule = best->text;
    scheme.named = best->pattern.has_value();
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<WeightScheme> found;
  for (const CompressedTarget& target : ignored)
    if (found.empty() && target.rank(layer) > 0) found.push_back({.plain = true, .rule = target.text});
  for (auto& [rank, scheme] : ranked) found.push_back(std::move(scheme));
  return found;
}

std::shared_ptr<const CompressedSettings> compressed_settings(const Checkpoint& checkpoint) {
  return std::static_pointer_cast<const CompressedSettings>(
      checkpoint.memo("compressed_tensors", [&] { return read_settings(checkpoint); }));
}

}  // namespace quaver
