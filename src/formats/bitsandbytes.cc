#include "formats/bitsandbytes.h"

#include "formats/bitsandbytes_4bit.h"
#include "formats/layer_reader.h"
#include "formats/layer_rules.h"
#include "formats/module_rules.h"
#include "formats/name_pattern.h"
#include "formats/packed_config.h"
#include "formats/quantization_config.h"

namespace quaver {
namespace {

struct Settings {
  bool four_bits = false, eight_bits = false;
  std::string type;  // of four bits
  float threshold = 6.0f;
  std::vector<NamePattern> skipped;
  std::string file;
};

const std::initializer_list<std::string_view> kMethods = {"bitsandbytes"};

bool detect(const Checkpoint& checkpoint) { return names_method(checkpoint, kMethods); }

bool either(const json& settings, const char* key, const char* other, const std::string& what) {
  return json_value<bool>(settings, key, json_value<bool>(settings, other, false, what), what);
}

Settings read_settings(const Checkpoint& checkpoint) {
  const auto config = find_quantization_config(checkpoint);
  const json& value = config->value;
  Settings settings;
  settings.file = (checkpoint.path() / config->file).string();
  const std::string& what = settings.file;
  settings.four_bits = either(value, "load_in_4bit", "_load_in_4bit", what);
  settings.eight_bits = either(value, "load_in_8bit", "_load_in_8bit", what);
  require(settings.four_bits != settings.eight_bits, ErrorKind::kBadFile, what,
          ": keys 'load_in_4bit' and 'load_in_8bit' are both ", settings.four_bits, "; expected one of them");
  refuse_keys(value, {"llm_int8_has_fp16_weight"}, what);
  settings.type = json_value<std::string>(value, "bnb_4bit_quant_type", "fp4", what);
  settings.threshold = json_value<float>(value, "llm_int8_threshold", 6.0f, what);
  require(settings.threshold >= 0, ErrorKind::kBadFile, what, ": llm_int8_threshold is ", settings.threshold,
          "; expected a positive number or 0");
  const json skipped = value.value("llm_int8_skip_modules", json());
  for (const std::string& name : parse_name_list(skipped, cat(what, ": key 'llm_int8_skip_modules'")))
    settings.skipped.push_back(NamePattern::components(name));
  return settings;
}

std::shared_ptr<const Settings> settings_of(const Checkpoint& checkpoint) {
  const auto kept = checkpoint.memo("bitsandbytes", [&]() -> std::shared_ptr<const void> {
    return std::make_shared<const Settings>(read_settings(checkpoint));
  });
  return std::static_pointer_cast<const Settings>(kept);
}

std::string where(const Checkpoint& checkpoint, const std::string& tensor) {
  return cat(checkpoint.file_of(tensor), ": tensor '", tensor, "'");
}

LayerPlan plan_4bit(const Checkpoint& checkpoint, LayerPlan plan, const std::string& state) {
  const auto settings = settings_of(checkpoint);
  require(settings->four_bits && state.ends_with("__" + settings->type), ErrorKind::kBadFile,
          where(checkpoint, state), " describes a 4-bit layer, but ", settings->file, " asks for ",
          settings->four_bits ? settings->type : "8 bits");
  plan.tensors = tensors_4bit(checkpoint, plan.layer, state);
  plan.scheme = {{"bits", 4}};
  return plan;
}

LayerPlan plan_8bit(const Checkpoint& checkpoint, LayerPlan plan) {
  const auto settings = settings_of(checkpoint);
  const std::string weight = plan.layer + ".weight", format = plan.layer + ".weight_format";
  require(settings->eight_bits, ErrorKind::kBadFile, where(checkpoint, plan.layer + ".SCB"),
          " belongs to an 8-bit layer, but ", settings->file, " asks for 4 bits");
  require(checkpoint.find(weight) != nullptr, ErrorKind::kBadFile, where(checkpoint, plan.layer + ".SCB"),
          " has no '", weight, "' beside it");
  plan.tensors = {weight, plan.layer + ".SCB"};
  if (checkpoint.find(format)) plan.tensors.push_back(format);
  plan.scheme = {{"bits", 8}, {"threshold", settings->threshold}};
  return plan;
}

LayerPlan plan(const Checkpoint& checkpoint, std::string_view layer) {
  LayerPlan plan{.layer = std::string(layer)};
  const std::string state = find_4bit_state(checkpoint, layer);
  if (!state.empty()) return plan_4bit(checkpoint, std::move(plan), state);
  if (checkpoint.find(cat(layer, ".SCB"))) return plan_8bit(checkpoint, std::move(plan));
  const TensorInfo* weight = checkpoint.find(cat(layer, ".weight"));
  require(!weight || is_plain_dtype(weight->dtype), ErrorKind::kBadFile,
          weight ? where(checkpoint, weight->name) : "", " has dtype ",
          weight ? dtype_info(weight->dtype).name : "",
          ", but neither a quant_state nor an SCB stands beside it");
  return plan;
}

// Older files could hold the tiles of one GPU's matrix unit.
void require_rows(const LayerReader& reader) {
  if (!reader.has("weight_format")) return;
  const TensorView view = reader.read("weight_format", {DType::kU8});
  require(view.data.size_bytes() == 1 && view.data.as<uint8_t>()[0] == 0, ErrorKind::kUnsupported,
          reader.where("weight_format"),
          " is not 0, which means plain rows and is the one that is supported");
}

QuantWeight unpack_8bit(const LayerPlan& plan, const Checkpoint& checkpoint) {
  const LayerReader reader(plan, checkpoint);
  require_rows(reader);
  QuantWeight weight;
  weight.element = Element::kInt8;
  read_codes(reader, "weight", CodeLayout::kSignedRows, weight);
  weight.group = {1, weight.shape.cols};
  weight.scale = reader.scales("SCB", {DType::kF32}, weight.shape.rows, 1);
  weight.scale.super = single_scale(1.0f / 127);  // SCB is the greatest magnitude of the row
  weight.activation = {.mode = ActivationQuant::Mode::kDynamic,
                       .element = Element::kInt8,
                       .group = -1,
                       .narrow = true,
                       .outlier_threshold = plan.scheme.at("threshold")};
  validate(weight, reader.what());
  return weight;
}

QuantWeight unpack(const LayerPlan& plan, const Checkpoint& checkpoint) {
  return plan.scheme.at("bits") == 4 ? unpack_4bit(plan, checkpoint) : unpack_8bit(plan, checkpoint);
}

std::vector<std::string> unmatched_rules(const Checkpoint& checkpoint) {
  const auto settings = settings_of(checkpoint);
  std::vector<ModuleRule> rules;
  for (const NamePattern& pattern : settings->skipped) rules.push_back({&pattern, pattern.key()});
  return unmatched_keys(checkpoint, rules);
}

}  // namespace

const Format kBitsAndBytesFormat = {
    .name = "bitsandbytes",
    .methods = kMethods,
    .detect = detect,
    .plan = plan,
    .unpack = unpack,
    .unmatched_rules = unmatched_rules,
};

}  // namespace quaver
