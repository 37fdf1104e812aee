#include "formats/quark.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/log.h"
#include "formats/layer_reader.h"
#include "formats/module_rules.h"
#include "formats/packed_config.h"
#include "formats/packed_layer.h"
#include "formats/quark_config.h"

namespace quaver {
namespace {

using Layout = QuarkScheme::Layout;
using Mode = ActivationQuant::Mode;

// Every end of a name by which Quark adds to a weight.
constexpr std::array kParts = {"weight_scale",      "weight_scale_inv",    "weight_scale_2",
                               "weight_zero_point", "weight_zero_point_2", "input_scale",
                               "input_scale_2",     "input_zero_point"};

const std::initializer_list<std::string_view> kMethods = {"quark"};

// Names of other versions of the exporter.
constexpr std::array kAliases = {PartAlias{"weight_scale", "weight_quantizer.scale"},
                                 PartAlias{"weight_zero_point", "weight_quantizer.zero_point"},
                                 PartAlias{"input_scale", "input_quantizer.scale"},
                                 PartAlias{"input_zero_point", "input_quantizer.zero_point"}};

// The tensors that hold a part: none or one where the file is sound.
std::vector<std::string> tensors_of_part(const Checkpoint& checkpoint, const std::string& layer,
                                         std::string_view part) {
  std::vector<std::string> found;
  auto look = [&](std::string_view name) {
    if (checkpoint.find(cat(layer, ".", name))) found.push_back(cat(layer, ".", name));
  };
  look(part);
  for (const PartAlias& other : kAliases)
    if (other.part == part) look(other.alias);
  return found;
}

bool detect(const Checkpoint& checkpoint) { return names_method(checkpoint, kMethods); }

std::string where(const Checkpoint& checkpoint, const std::string& tensor) {
  return cat(checkpoint.file_of(tensor), ": tensor '", tensor, "'");
}

struct Wanted {
  std::set<std::string> required, optional;
};

Wanted parts_of(const QuarkScheme& scheme) {
  Wanted wanted;
  const bool blocks = scheme.group.rows > 1;
  (blocks ? wanted.optional : wanted.required).insert("weight_scale");
  if (blocks) wanted.optional.insert("weight_scale_inv");
  if (scheme.second) wanted.required.insert("weight_scale_2");
  if (element_info(scheme.element).integer)
    (scheme.sym ? wanted.optional : wanted.required).insert("weight_zero_point");
  const ActivationQuant& input = scheme.activation;
  if (input.mode == Mode::kStatic) {
    wanted.required.insert("input_scale");
    const bool zero = element_info(input.element).integer;
    if (zero) (input.sym ? wanted.optional : wanted.required).insert("input_zero_point");
  }
  if (input.mode == Mode::kDynamic && input.scale == ScaleCodec::kE4M3FN)
    wanted.required.insert("input_scale_2");
  return wanted;
}

void collect_parts(const Checkpoint& checkpoint, const QuarkScheme& scheme, const std::string& rule,
                   LayerPlan& plan) {
  const Wanted wanted = parts_of(scheme);
  plan.tensors = {plan.layer + ".weight"};
  for (const std::string part : kParts) {
    const std::vector<std::string> names = tensors_of_part(checkpoint, plan.layer, part);
    const bool required = wanted.required.contains(part);
    require(!names.empty() || !required, ErrorKind::kBadFile, checkpoint.path().string(), ": tensor '",
            plan.layer, ".", part, "' is missing although ", rule, " asks for it");
    if (names.empty()) continue;
    require(names.size() == 1, ErrorKind::kBadFile, where(checkpoint, names.back()), " repeats '", names[0],
            "'");
    require(required || wanted.optional.contains(part), ErrorKind::kBadFile, where(checkpoint, names[0]),
            " has no place in a layer as ", rule, " describes it");
    plan.tensors.push_back(names[0]);
  }
  require(plan.tensors.size() > 1, ErrorKind::kBadFile, where(checkpoint, plan.tensors[0]),
          " has no scale beside it although ", rule, " asks for one");
}

// True when the layer is stored plain; throws where its tensors are a muddle.
bool is_plain(const Checkpoint& checkpoint, const std::string& layer) {
  const TensorInfo* weight = checkpoint.find(layer + ".weight");
  if (weight && !is_plain_dtype(weight->dtype)) return false;
  for (const std::string part : kParts)
    for (const std::string& left : tensors_of_part(checkpoint, layer, part))
      fail(ErrorKind::kBadFile, where(checkpoint, left), " stands beside ",
           weight ? cat("'", weight->name, "' of dtype ", dtype_info(weight->dtype).name) : "no weight",
           "; expected quantized codes there");
  return true;
}

LayerPlan plan(const Checkpoint& checkpoint, std::string_view layer_name) {
  LayerPlan plan{.layer = std::string(layer_name)};
  if (is_plain(checkpoint, plan.layer)) return plan;
  const auto settings = quark_settings(checkpoint);
  const auto [layer, rule] = settings->layer(plan.layer);
  const std::string weight = plan.layer + ".weight";
  require(!layer.is_null(), ErrorKind::kBadFile, where(checkpoint, weight), " has dtype ",
          dtype_info(checkpoint.find(weight)->dtype).name, ", but ", settings->file,
          " leaves its layer plain");
  const json output = layer.value("output_tensors", json());
  require(output.is_null() || settings->caches(plan.layer), ErrorKind::kUnsupported, settings->file, ": ",
          rule, " quantizes the output of layer '", plan.layer,
          "', which is supported for keys and values only");
  collect_parts(checkpoint, parse_quark_scheme(layer, rule), cat(rule, " in ", settings->file), plan);
  plan.scheme = {{"layer", layer}, {"rule", rule}, {"reordered", settings->reordered}};
  return plan;
}

void require_words(const LayerReader& reader, std::string_view part, std::initializer_list<DType> types,
                   const std::vector<int64_t>& shape) {
  const TensorView view = reader.read(part, types);
  require(view.shape == shape, ErrorKind::kBadFile, reader.where(part), " has shape ", view.shape,
          ", expected ", shape);
}

// Types and shapes of words along the output: [in, out / 8], one row of scales and zero points for each
// group.
void check_words(const LayerReader& reader, int64_t group) {
  const auto words = {DType::kI32, DType::kU32};
  const TensorView view = reader.read("weight", words);
  require(view.shape.size() == 2, ErrorKind::kBadFile, reader.where("weight"), " has shape ", view.shape,
          ", expected two dimensions");
  const int64_t in = view.shape[0], columns = view.shape[1], groups = (in + group - 1) / group;
  reader.checked_shape("weight", columns * 8, in);
  require_words(reader, "weight_zero_point", words, {groups, columns});
  require_words(reader, "weight_scale", kFloatTypes, {groups, columns * 8});
}

// Four-bit integers lie in words along the output, as another tool's file has them under other names.
QuantWeight unpack_words(const LayerPlan& plan, const Checkpoint& checkpoint, const LayerReader& reader,
                         const QuarkScheme& scheme) {
  LayerPlan words{.layer = plan.layer, .shape = plan.shape};
  for (const char* part : {"weight", "weight_zero_point", "weight_scale"}) {
    require(reader.has(part), ErrorKind::kBadFile, reader.what(), " has no '", part, "'");
    words.tensors.push_back(cat(plan.layer, ".", part));
  }
  words.scheme = {{"bits", 4},
                  {"group_size", scheme.group.cols},
                  {"sym", scheme.sym},
                  {"along_in", false},
                  {"interleaved", plan.scheme.at("reordered")},
                  {"signed", scheme.signed_codes},
                  {"zero_offset", scheme.signed_codes ? 8 : 0},
                  {"activation_order", false}};
  check_words(reader, scheme.group.cols);
  return unpack_packed_layer(words, checkpoint);
}

Scales read_scales(const LayerReader& reader, const QuarkScheme& scheme, const QuantWeight& weight) {
  const int64_t rows = weight.num_group_rows(), cols = weight.num_group_cols();
  const char* part = reader.has("weight_scale_inv") ? "weight_scale_inv" : "weight_scale";
  if (scheme.scale == ScaleCodec::kE8M0) return reader.scales(part, {DType::kU8, DType::kF8E8M0}, rows, cols);
  if (scheme.scale == ScaleCodec::kE4M3FN) return reader.scales(part, {DType::kF8E4M3}, rows, cols);
  return reader.scales(part, kFloatTypes, rows, cols);
}

std::vector<int8_t> signed_bytes(const LayerReader& reader, std::string_view part, int64_t count) {
  const TensorView view = reader.read(part, {DType::kI8});
  require(static_cast<int64_t>(view.data.size_bytes()) == count, ErrorKind::kBadFile, reader.where(part),
          " has shape ", view.shape, ", expected ", count, count == 1 ? " entry" : " entries");
  const auto values = view.data.as<int8_t>();
  return {values.begin(), values.end()};
}

void require_zero(const LayerReader& reader, std::string_view part, int value) {
  if (value != 0)
    fail(ErrorKind::kBadFile, reader.where(part), " holds ", value,
         ", but the quantization settings say symmetric");
}

void read_zero_points(const LayerReader& reader, const QuarkScheme& scheme, QuantWeight& weight) {
  if (!reader.has("weight_zero_point")) return;
  std::vector<uint8_t> zeros;
  const int64_t count = weight.num_group_rows() * weight.num_group_cols();
  for (const int8_t zero : signed_bytes(reader, "weight_zero_point", count)) {
    if (scheme.sym) require_zero(reader, "weight_zero_point", zero);
    zeros.push_back(static_cast<uint8_t>(zero + 128));
  }
  if (!scheme.sym) weight.offset = IntegerZeros{Buffer::copy_of(zeros)};
}

void read_input(const LayerReader& reader, const QuarkScheme& scheme, QuantWeight& weight) {
  weight.activation = scheme.activation;
  if (reader.has("input_scale")) weight.activation.static_scale = reader.number("input_scale");
  if (reader.has("input_scale_2")) weight.activation.super_scale = reader.number("input_scale_2");
  if (!reader.has("input_zero_point")) return;
  weight.activation.static_zero = signed_bytes(reader, "input_zero_point", 1)[0];
  if (scheme.activation.sym) require_zero(reader, "input_zero_point", weight.activation.static_zero);
}

QuantWeight unpack_rows(const LayerReader& reader, const QuarkScheme& scheme) {
  QuantWeight weight;
  weight.element = scheme.element;
  read_codes(reader, "weight",
             scheme.layout == Layout::kSignedRows ? CodeLayout::kSignedRows : CodeLayout::kRows, weight);
  weight.group = {scheme.group.rows ? scheme.group.rows : weight.shape.rows,
                  scheme.group.cols ? scheme.group.cols : weight.shape.cols};
  weight.scale = read_scales(reader, scheme, weight);
  if (scheme.second) weight.scale.super = single_scale(reader.number("weight_scale_2"));
  read_zero_points(reader, scheme, weight);
  return weight;
}

QuantWeight unpack(const LayerPlan& plan, const Checkpoint& checkpoint) {
  const LayerReader reader(plan, checkpoint, kAliases);
  const QuarkScheme scheme =
      parse_quark_scheme(plan.scheme.at("layer"), plan.scheme.at("rule").get_ref<const std::string&>());
  QuantWeight weight = scheme.layout == Layout::kWordsAlongOut
                           ? unpack_words(plan, checkpoint, reader, scheme)
                           : unpack_rows(reader, scheme);
  read_input(reader, scheme, weight);
  validate(weight, reader.what());
  return weight;
}

std::vector<std::string> unmatched_rules(const Checkpoint& checkpoint) {
  const auto settings = quark_settings(checkpoint);
  std::vector<ModuleRule> rules;
  for (const NamePattern& pattern : settings->excluded) rules.push_back({&pattern, pattern.key()});
  for (const QuarkSettings::Rule& rule : settings->rules) rules.push_back({&rule.pattern, rule.key});
  return unmatched_keys(checkpoint, rules);
}

std::optional<KvCacheQuant> kv_cache(const Checkpoint& checkpoint) {
  if (quark_settings(checkpoint)->cached.empty()) return std::nullopt;
  return KvCacheQuant{.element = Element::kE4M3FN};
}

}  // namespace

const Format kQuarkFormat = {
    .name = "quark",
    .methods = kMethods,
    .detect = detect,
    .plan = plan,
    .unpack = unpack,
    .unmatched_rules = unmatched_rules,
    .kv_cache = kv_cache,
};

}  // namespace quaver
