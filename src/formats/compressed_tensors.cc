#include "formats/compressed_tensors.h"

#include <algorithm>

#include "formats/compressed_tensors_config.h"
#include "formats/layer_rules.h"
#include "formats/packed_config.h"
#include "formats/scaled_layer.h"

namespace quaver {
namespace {

const std::initializer_list<std::string_view> kMethods = {"compressed-tensors", "compressed_tensors"};

bool detect(const Checkpoint& checkpoint) { return names_method(checkpoint, kMethods); }

LayerPlan plan(const Checkpoint& checkpoint, std::string_view layer) {
  return plan_scaled_layer(checkpoint, layer, compressed_settings(checkpoint)->candidates(layer));
}

bool fits_any(const CompressedTarget& target, const std::unordered_set<std::string>& modules) {
  return modules.contains(target.text) ||
         std::any_of(modules.begin(), modules.end(),
                     [&](const std::string& module) { return target.rank(module) > 0; });
}

std::vector<std::string> unmatched_rules(const Checkpoint& checkpoint) {
  const auto settings = compressed_settings(checkpoint);
  const std::unordered_set<std::string> modules = module_names(checkpoint);
  std::vector<std::string> missing;
  for (const CompressedGroup& group : settings->groups)
    for (const CompressedTarget& target : group.targets)
      if (!fits_any(target, modules)) missing.push_back(target.text);
  for (const CompressedTarget& target : settings->ignored)
    if (!fits_any(target, modules)) missing.push_back(target.text);
  return missing;
}

// Files whose last groups are short are read here, but neither by the library nor by the engines that use it.
void require_whole_groups(const QuantWeight& weight, std::string_view layer) {
  require(weight.shape.cols % weight.group.cols == 0, ErrorKind::kInvalidInput, "layer '", layer,
          "': ", weight.shape.cols, " input channels are no whole number of groups of ", weight.group.cols,
          ", and readers of this format refuse others; take another group size or keep it at 16 bits");
}

std::vector<NamedTensor> pack(const QuantWeight& weight, std::string_view layer, const Recipe& recipe) {
  require_whole_groups(weight, layer);
  return pack_scaled_layer(weight, layer, compressed_scheme_of(recipe, layer));
}

std::optional<KvCacheQuant> kv_cache(const Checkpoint& checkpoint) {
  return compressed_settings(checkpoint)->kv_cache;
}

std::vector<NamedTensor> pack_kv(std::string_view attention, const KvPair& scales) {
  return pack_kv_scales(attention, scales, {"k_scale", "v_scale"}, {1});
}

}  // namespace

const Format kCompressedTensorsFormat = {
    .name = "compressed_tensors",
    .tool_name = "llm_compressor",
    .methods = kMethods,
    .detect = detect,
    .plan = plan,
    .unpack = unpack_scaled_layer,
    .pack = pack,
    .config_json = compressed_config_json,
    .whole_groups = true,
    .input_power = PowerOfTwo::kRoundedToOneBit,
    .unmatched_rules = unmatched_rules,
    .kv_cache = kv_cache,
    .pack_kv = pack_kv,
};

}  // namespace quaver
