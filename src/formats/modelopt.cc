#include "formats/modelopt.h"

#include <algorithm>
#include <array>

#include "base/log.h"
#include "formats/modelopt_config.h"
#include "formats/modelopt_pack.h"
#include "formats/module_rules.h"
#include "formats/packed_config.h"

namespace quaver {
namespace {

using Group = ModelOptAlgorithm::Group;
using Second = ModelOptAlgorithm::Second;
using Layer = ModelOptSettings::Layer;

constexpr int64_t kBlock = 128;

// Every end of a name by which Model Optimizer adds to a weight.
constexpr std::array kParts = {"weight_scale",    "weight_scale_2",  "input_scale",
                               "pre_quant_scale", "svdquant_lora_a", "svdquant_lora_b"};

const std::initializer_list<std::string_view> kMethods = {"modelopt", "modelopt_fp4", "modelopt_mixed",
                                                          "modelopt_mxfp8"};

bool detect(const Checkpoint& checkpoint) { return names_method(checkpoint, kMethods); }

std::string where(const Checkpoint& checkpoint, const std::string& tensor) {
  return cat(checkpoint.file_of(tensor), ": tensor '", tensor, "'");
}

// Parts that the algorithm wants, in the order of `kParts` behind the weight; fills the plan or throws.
void collect_parts(const Checkpoint& checkpoint, const Layer& layer, LayerPlan& plan) {
  const ModelOptAlgorithm& algorithm = *layer.algorithm;
  plan.tensors = {plan.layer + ".weight"};
  for (const std::string part : kParts) {
    const std::string name = cat(plan.layer, ".", part);
    const bool wanted = part == "weight_scale" || (part == "input_scale" && algorithm.has_input_scale()) ||
                        (part == "weight_scale_2" && algorithm.second != Second::kNone);
    const bool stands = checkpoint.find(name) != nullptr;
    require(stands || !wanted, ErrorKind::kBadFile, checkpoint.path().string(), ": tensor '", name,
            "' is missing although its layer is quantized by ", algorithm.name);
    if (!stands) continue;
    require(wanted || part == "pre_quant_scale", ErrorKind::kBadFile, where(checkpoint, name),
            " has no place in a layer quantized by ", algorithm.name, ", which '", layer.rule, "' in ",
            modelopt_settings(checkpoint)->file, " asks for");
    const bool unused = part == "weight_scale_2" && algorithm.second == Second::kUnused;
    (unused ? plan.dropped : plan.tensors).push_back(name);
  }
}

// True when the layer is stored plain; throws where its tensors are a muddle.
bool is_plain(const Checkpoint& checkpoint, const std::string& layer) {
  const TensorInfo* weight = checkpoint.find(layer + ".weight");
  if (weight && !is_plain_dtype(weight->dtype)) return false;
  for (const std::string part : kParts)
    if (const TensorInfo* left = checkpoint.find(cat(layer, ".", part)))
      fail(ErrorKind::kBadFile, where(checkpoint, left->name), " stands beside ",
           weight ? cat("'", weight->name, "' of dtype ", dtype_info(weight->dtype).name) : "no weight",
           "; expected quantized codes there");
  return true;
}

// What the settings say of a layer whose codes are on disk.
Layer scheme_of(const Checkpoint& checkpoint, const std::string& layer) {
  const auto settings = modelopt_settings(checkpoint);
  const Layer found = settings->layer(layer);
  if (found.algorithm) return found;
  const std::string weight = layer + ".weight";
  require(settings->defaults.algorithm != nullptr, ErrorKind::kBadFile, where(checkpoint, weight),
          " has dtype ", dtype_info(checkpoint.find(weight)->dtype).name, ", but 'quantized_layers' in ",
          settings->file, " does not name its layer");
  log_warning(where(checkpoint, weight), " is quantized although ", settings->file,
              " lists its layer as left out; reading what is stored");
  return settings->defaults;
}

LayerPlan plan(const Checkpoint& checkpoint, std::string_view layer_name) {
  LayerPlan plan{.layer = std::string(layer_name)};
  if (is_plain(checkpoint, plan.layer)) return plan;
  const Layer layer = scheme_of(checkpoint, plan.layer);
  collect_parts(checkpoint, layer, plan);
  plan.scheme = {
      {"algorithm", layer.algorithm->name}, {"group_size", layer.group_size}, {"rule", layer.rule}};
  return plan;
}

// The group that the scales' shape means. One block's scale is stored without dimensions.
Extent2d group_along_in(const LayerReader& reader, const LayerPlan& plan, const Checkpoint& checkpoint,
                        Extent2d shape) {
  const std::vector<int64_t>& stored = checkpoint.find(plan.layer + ".weight_scale")->shape;
  const int64_t groups = stored.empty() ? 1 : stored.back();
  require(groups > 0 && shape.cols % groups == 0, ErrorKind::kBadFile, reader.where("weight_scale"),
          " has shape ", stored, ", but ", groups, " groups don't divide rows of ", shape.cols);
  const int64_t group = shape.cols / groups, said = plan.scheme.at("group_size");
  require(said == 0 || said == group, ErrorKind::kBadFile, reader.where("weight_scale"), " has shape ",
          stored, ", which makes groups of ", group, ", but the quantization settings say group_size ", said);
  return {1, group};
}

Extent2d group_of(const LayerReader& reader, const LayerPlan& plan, const Checkpoint& checkpoint, Group kind,
                  Extent2d shape) {
  switch (kind) {
    case Group::kTensor:
      return shape;
    case Group::kRow:
      return {1, shape.cols};
    case Group::kBlock:
      return {kBlock, kBlock};
    default:
      return group_along_in(reader, plan, checkpoint, shape);
  }
}

Scales read_scales(const LayerReader& reader, const ModelOptAlgorithm& algorithm, const QuantWeight& weight) {
  const int64_t rows = weight.num_group_rows(), cols = weight.num_group_cols();
  if (algorithm.scale == ScaleCodec::kE8M0)
    return reader.scales("weight_scale", {DType::kU8, DType::kF8E8M0}, rows, cols);
  if (algorithm.scale == ScaleCodec::kE4M3FN)
    return reader.scales("weight_scale", {DType::kF8E4M3}, rows, cols);
  return reader.scales("weight_scale", kFloatTypes, rows, cols);
}

QuantWeight unpack(const LayerPlan& plan, const Checkpoint& checkpoint) {
  const LayerReader reader(plan, checkpoint);
  const ModelOptAlgorithm& algorithm =
      *find_modelopt_algorithm(plan.scheme.at("algorithm").get_ref<const std::string&>());
  QuantWeight weight;
  weight.element = algorithm.element;
  read_codes(reader, "weight", algorithm.layout, weight);
  weight.group = group_of(reader, plan, checkpoint, algorithm.group, weight.shape);
  weight.scale = read_scales(reader, algorithm, weight);
  if (algorithm.second == Second::kMultiplies)
    weight.scale.super = single_scale(reader.number("weight_scale_2"));
  weight.activation = algorithm.activation;
  if (reader.has("input_scale")) {
    const bool is_static = weight.activation.mode == ActivationQuant::Mode::kStatic;
    (is_static ? weight.activation.static_scale : weight.activation.super_scale) =
        reader.number("input_scale");
  }
  if (reader.has("pre_quant_scale"))
    weight.input_multiplier = reader.floats("pre_quant_scale", weight.shape.cols);
  validate(weight, reader.what());
  return weight;
}

std::vector<std::string> unmatched_rules(const Checkpoint& checkpoint) {
  const auto settings = modelopt_settings(checkpoint);
  std::vector<ModuleRule> rules;
  for (const NamePattern& pattern : settings->ignored) rules.push_back({&pattern, pattern.key()});
  std::vector<NamePattern> layers;
  for (const auto& [name, layer] : settings->layers) layers.push_back(NamePattern::name(layer.rule));
  for (const NamePattern& pattern : layers) rules.push_back({&pattern, pattern.key()});
  return unmatched_keys(checkpoint, rules);
}

std::optional<KvCacheQuant> kv_cache(const Checkpoint& checkpoint) {
  if (!modelopt_settings(checkpoint)->fp8_cache) return std::nullopt;
  return KvCacheQuant{.element = Element::kE4M3FN};
}

std::vector<NamedTensor> pack_kv(std::string_view attention, const KvPair& scales) {
  return pack_kv_scales(attention, scales, {"k_proj.k_scale", "v_proj.v_scale"}, {});
}

}  // namespace

const Format kModelOptFormat = {
    .name = "modelopt",
    .methods = kMethods,
    .detect = detect,
    .plan = plan,
    .unpack = unpack,
    .pack = pack_modelopt_layer,
    .config_json = modelopt_config_json,
    .settings_file = "hf_quant_config.json",
    .settings_of_file = modelopt_settings_of_file,
    .unmatched_rules = unmatched_rules,
    .kv_cache = kv_cache,
    .pack_kv = pack_kv,
};

}  // namespace quaver
