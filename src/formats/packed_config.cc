#include "formats/packed_config.h"

#include <algorithm>
#include <array>

namespace quaver {
namespace {

// Settings at these values are left out of the file.
const json& default_tuning() {
  static const json defaults = {{"amp", true},
                                {"batch_size", 8},
                                {"dataset", "NeelNanda/pile-10k"},
                                {"enable_minmax_tuning", true},
                                {"enable_norm_bias_tuning", false},
                                {"enable_quanted_input", true},
                                {"gradient_accumulate_steps", 1},
                                {"iters", 200},
                                {"low_gpu_mem_usage", false},
                                {"nsamples", 128},
                                {"scale_dtype", "torch.float16"},
                                {"seqlen", 2048}};
  return defaults;
}

bool is_default_tuning(const json& tuning, const std::string& key, const json& value) {
  if (value.is_null()) return true;
  if (const auto it = default_tuning().find(key); it != default_tuning().end()) return *it == value;
  if (key != "lr" && key != "minmax_lr") return false;
  const int iters = json_value<int>(tuning, "iters", 0, "tuning");
  return value.is_number() && value.get<double>() == (iters > 0 ? 1.0 / iters : 5e-3);
}

}  // namespace

std::shared_ptr<const PackedSettings> packed_settings(const Checkpoint& checkpoint, const char* name,
                                                      PackedReader reader) {
  const auto kept = checkpoint.memo(name, [&]() -> std::shared_ptr<const void> {
    const auto config = find_quantization_config(checkpoint);
    require(config.has_value(), ErrorKind::kBadFile, checkpoint.path().string(),
            ": has no quantization settings");
    const std::string what = (checkpoint.path() / config->file).string();
    return std::make_shared<const PackedSettings>(reader(checkpoint, *config, what));
  });
  return std::static_pointer_cast<const PackedSettings>(kept);
}

bool names_method(const Checkpoint& checkpoint, std::initializer_list<std::string_view> methods) {
  const auto config = find_quantization_config(checkpoint);
  return config && std::find(methods.begin(), methods.end(), config->method) != methods.end();
}

void refuse_keys(const json& settings, std::initializer_list<const char*> keys, std::string_view what) {
  for (const char* key : keys) {
    const auto it = settings.find(key);
    const bool unset = it == settings.end() || it->is_null() || *it == false ||
                       (!it->is_primitive() && it->empty()) ||
                       (it->is_string() && it->get<std::string>().empty());
    require(unset, ErrorKind::kUnsupported, what, ": key '", key, "' is set (",
            unset ? "" : it->dump().substr(0, 80),
            "), which changes what the weights mean and is not supported");
  }
}

void refuse_quantized_activations(const json& settings, std::string_view what) {
  const int bits = json_value<int>(settings, "act_bits", 16, what);
  require(bits >= 16, ErrorKind::kUnsupported, what, ": key 'act_bits' asks for ", bits,
          "-bit activations, which packed integer layers don't support");
}

json packed_config_json(const Recipe& recipe, const char* method) {
  json config = json::object();
  if (recipe.tuning.is_object())
    for (const auto& [key, value] : recipe.tuning.items())
      if (!is_default_tuning(recipe.tuning, key, value)) config[key] = value;
  config["autoround_version"] = "0.16.1";
  config["quant_method"] = method;
  return config;
}

json packed_integer_settings(const Recipe& recipe) {
  require(!recipe.scheme, ErrorKind::kInvalidInput,
          "this format holds integers with 16-bit activations, not ",
          recipe.scheme ? describe(*recipe.scheme) : "");
  refuse_form_overrides(recipe, "this format holds nothing else beside weight-only integers");
  return {
      {"bits", recipe.bits}, {"data_type", "int"}, {"group_size", recipe.group_size}, {"sym", recipe.sym}};
}

std::string join_names(const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ",") + name;
  return joined;
}

}  // namespace quaver
