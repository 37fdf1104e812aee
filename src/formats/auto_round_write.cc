#include "formats/auto_round_write.h"

#include <algorithm>

#include "formats/auto_round_scheme.h"
#include "formats/packed_config.h"
#include "formats/scaled_layer.h"

namespace quaver {
namespace {

using Mode = ActivationQuant::Mode;

// The interleaved packing knows 4 bits only, and a stored z - 1 can't hold every asymmetric zero point.
std::string integer_packing(const Recipe& recipe) {
  if (recipe.sym) return "auto_round:auto_gptq";
  const bool all_four =
      std::all_of(recipe.layer_overrides.begin(), recipe.layer_overrides.end(), [&](const auto& o) {
        const int bits = json_value<int>(o.second, "bits", recipe.bits, o.first);
        return bits == 4 || bits >= 16;
      });
  return recipe.bits == 4 && all_four ? "auto_round:auto_awq" : "auto_round";
}

bool is_blocks(const WeightScheme& scheme) { return scheme.group.rows > 1; }

// Scales of a row lie in one dimension here, and those of blocks have another name.
void respell_scale(NamedTensor& tensor, const WeightScheme& scheme) {
  if (!tensor.name.ends_with(".weight_scale") || scheme.scale == ScaleCodec::kE8M0 || scheme.has_divisor)
    return;
  if (is_blocks(scheme))
    tensor.name += "_inv";
  else
    tensor.tensor.shape.resize(1);
}

// All of them: readers take what is missing from the settings of the blocks. The packing stands once in the
// file.
json form_settings(const Recipe& recipe, const std::string& layer, const WeightScheme& form) {
  const bool integers = form.storage == CodeStorage::kWords && form.activation.mode == Mode::kNone;
  json settings = integers ? json::object() : scaled_settings(form);
  const json packing = settings.value("packing_format", json());
  const json others = scaled_settings(*recipe.scheme).value("packing_format", json());
  require(!integers && packing == others, ErrorKind::kInvalidInput, "layer '", layer, "' as ", describe(form),
          " beside ", describe(*recipe.scheme), ": this format has one packing for all layers");
  settings.erase("packing_format");
  return settings;
}

// A head, which lies outside the blocks, is named with all of its settings.
json layer_settings(const Recipe& recipe, const std::string& layer) {
  if (!recipe.scheme) return packed_integer_settings(recipe);
  return form_settings(recipe, layer, *recipe.scheme);
}

}  // namespace

PackedConvention auto_round_convention(const std::string& packing, const std::string& what) {
  std::string_view rest = packing;
  for (std::string_view prefix : {"auto_round", "autoround", "auto-round"})
    if (rest.starts_with(prefix)) rest.remove_prefix(prefix.size());
  while (rest.starts_with(':')) rest.remove_prefix(1);
  const std::string_view layout = rest.substr(0, rest.find(':'));
  if (layout == "awq" || layout == "auto_awq") return {.layout = PackedLayout::kInterleavedAlongOut};
  if (layout == "gptq" || layout == "auto_gptq" || layout == "auto") return {.zero_offset = 1};
  for (std::string_view stored_as_is : {"", "gptqmodel", "exllamav2", "tritonv2", "triton", "torch", "fake"})
    if (layout == stored_as_is) return {};
  fail(ErrorKind::kUnsupported, what, ": packing_format '", packing.substr(0, 80),
       "' is not supported; integer packings are auto_round:auto_gptq, auto_round:gptqmodel, "
       "auto_round:auto_awq and "
       "auto_round");
}

std::vector<NamedTensor> pack_auto_round_layer(const QuantWeight& weight, std::string_view layer,
                                               const Recipe& recipe) {
  const WeightScheme* form = form_of_layer(recipe, layer);
  if (!form)
    return pack_packed_layer(weight, layer, auto_round_convention(integer_packing(recipe), "auto_round"));
  std::vector<NamedTensor> tensors = pack_scaled_layer(weight, layer, *form);
  for (NamedTensor& tensor : tensors) respell_scale(tensor, *form);
  return tensors;
}

json auto_round_config_json(const Recipe& recipe) {
  json config = packed_config_json(recipe, "auto-round");
  config.update(recipe.scheme ? scaled_settings(*recipe.scheme) : packed_integer_settings(recipe));
  if (!recipe.scheme) config["packing_format"] = integer_packing(recipe);
  if (recipe.fp8_kv_cache) config["static_kv_dtype"] = "fp8";
  if (!recipe.block_names.empty()) config["block_name_to_quantize"] = join_names(recipe.block_names);
  for (const std::string& layer : layers_outside_blocks(recipe))
    config["extra_config"][layer] = layer_settings(recipe, layer);
  for (const auto& [layer, body] : recipe.layer_overrides) config["extra_config"][layer].update(body);
  for (const auto& [layer, form] : recipe.form_overrides)
    config["extra_config"][layer] = form_settings(recipe, layer, form);
  return config;
}

}  // namespace quaver
