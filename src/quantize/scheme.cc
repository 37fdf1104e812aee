#include "quantize/scheme.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <regex>

#include "base/log.h"

namespace quaver::quantize {
namespace {

struct Preset {
  std::string_view name;
  Scheme scheme;
};

constexpr int64_t kMinDivisor = 32;  // kernels of every consumer want rows and columns in multiples of this

constexpr Scheme floats(DataType type, int bits, int64_t group, int64_t group_rows = 1,
                        ActivationScheme activation = {}) {
  return {.bits = bits,
          .group_size = group,
          .data_type = type,
          .group_rows = group_rows,
          .activation = activation};
}

constexpr ActivationScheme kInt8PerToken = {.bits = 8};
constexpr ActivationScheme kFp8PerToken = {.bits = 8, .data_type = DataType::kFp};
constexpr ActivationScheme kFp8PerBlock = {.bits = 8, .group_size = 128, .data_type = DataType::kFp};
constexpr ActivationScheme kFp8Static = {
    .bits = 8, .group_size = 0, .data_type = DataType::kFp, .dynamic = false};
constexpr ActivationScheme kMxFp4 = {.bits = 4, .group_size = 32, .data_type = DataType::kMxFp};
constexpr ActivationScheme kMxFp8 = {.bits = 8, .group_size = 32, .data_type = DataType::kMxFp};
constexpr ActivationScheme kNvFp4 = {.bits = 4, .group_size = 16, .data_type = DataType::kNvFp};

constexpr std::array kPresets = {
    Preset{"W2A16", {2, 128, true}},
    Preset{"W2A16G64", {2, 64, true}},
    Preset{"W2A16G32", {2, 32, true}},
    Preset{"W3A16", {3, 128, true}},
    Preset{"W4A16", {4, 128, true}},
    Preset{"W8A16", {8, 128, true}},
    Preset{"W4A8", {.bits = 4, .activation = kInt8PerToken}},
    Preset{"INT8", {.bits = 8, .group_size = -1, .activation = kInt8PerToken}},
    Preset{"INT8_W8A8", {.bits = 8, .group_size = -1, .activation = kInt8PerToken}},
    Preset{"MXFP4", floats(DataType::kMxFp, 4, 32, 1, kMxFp4)},
    Preset{"MXFP8", floats(DataType::kMxFp, 8, 32, 1, kMxFp8)},
    Preset{"NVFP4", floats(DataType::kNvFp, 4, 16, 1, kNvFp4)},
    Preset{"FPW8A16", floats(DataType::kFp, 8, 0)},
    Preset{"FP8_STATIC", floats(DataType::kFp, 8, -1, 1, kFp8Static)},
    Preset{"FP8_TENSOR", floats(DataType::kFp, 8, 0, 1, kFp8Static)},
    Preset{"FP8_DYNAMIC", floats(DataType::kFp, 8, -1, 1, kFp8PerToken)},
    Preset{"FP8_BLOCK", floats(DataType::kFp, 8, 128, 128, kFp8PerBlock)},
    Preset{"BF16", {16, 128, true}},
};

// What can be stored and multiplied, apart from plain integers.
bool is_known_kind(const Scheme& scheme) {
  return std::ranges::any_of(kPresets, [&](const Preset& preset) {
    Scheme known = preset.scheme;
    if (known.data_type == DataType::kInt) known.group_size = scheme.group_size, known.sym = scheme.sym;
    known.zero_from_one = scheme.zero_from_one;
    return !is_plain_integer(known) && known == scheme;
  });
}

ActivationQuant stored_activation(const ActivationScheme& activation) {
  using Mode = ActivationQuant::Mode;
  if (activation.bits == 16) return {};
  ActivationQuant quant{.mode = activation.dynamic ? Mode::kDynamic : Mode::kStatic,
                        .element = activation.bits == 4                     ? Element::kE2M1
                                   : activation.data_type == DataType::kInt ? Element::kInt8
                                                                            : Element::kE4M3FN,
                        .group = activation.group_size};
  if (activation.data_type == DataType::kMxFp) quant.scale = ScaleCodec::kE8M0;
  if (activation.data_type == DataType::kNvFp) quant.scale = ScaleCodec::kE4M3FN;
  return quant;
}

std::string upper(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::toupper(c); });
  return out;
}

int whole_number(const json& value, const char* key, std::string_view where) {
  require(value.is_number_integer(), ErrorKind::kInvalidInput, where, ": ", key,
          " must be a whole number, got ", value.dump());
  return value.get<int>();
}

void apply_field(Scheme& scheme, const std::string& key, const json& value, std::string_view where) {
  if (value.is_null()) return;
  if (key == "bits") {
    scheme.bits = whole_number(value, "bits", where);
  } else if (key == "group_size") {
    scheme.group_size = whole_number(value, "group_size", where);
  } else if (key == "sym") {
    require(value.is_boolean(), ErrorKind::kInvalidInput, where, ": sym must be true or false, got ",
            value.dump());
    scheme.sym = value.get<bool>();
  } else if (key == "data_type") {
    require(value == "int" || value == "float", ErrorKind::kUnsupported, where,
            ": data_type must be \"int\" or, for 16 bits, \"float\", got ", value.dump(),
            "; other types by a scheme's name");
    if (value == "float") scheme.bits = 16;
  } else {
    fail(ErrorKind::kInvalidInput, where, ": unknown key '", key,
         "'; known are bits, group_size, sym, data_type");
  }
}

Scheme overridden(Scheme base, const json& rule, std::string_view where) {
  if (rule.is_string()) return scheme_from_name(rule.get<std::string>());
  require(rule.is_object(), ErrorKind::kInvalidInput, where, ": must be a scheme's name or an object, got ",
          rule.dump().substr(0, 60));
  for (const auto& [key, value] : rule.items()) apply_field(base, key, value, where);
  validate_scheme(base, where);
  return base;
}

bool ignored_by(const std::string& entry, const std::string& layer) {
  std::string wanted = entry;
  if (std::isdigit(static_cast<unsigned char>(wanted.back()))) wanted.push_back('.');
  return layer.find(wanted) != std::string::npos;
}

// Indices of the layers that an entry means: the exact name alone when there is one.
template <class Matches>
std::vector<size_t> matching(std::span<const LayerShape> layers, const std::string& exact,
                             const Matches& matches) {
  std::vector<size_t> found;
  for (size_t i = 0; i < layers.size(); ++i)
    if (layers[i].name == exact) return {i};
  for (size_t i = 0; i < layers.size(); ++i)
    if (matches(layers[i].name)) found.push_back(i);
  return found;
}

std::vector<size_t> matching_rule(std::span<const LayerShape> layers, const std::string& key) {
  std::regex pattern;
  bool is_pattern = key.find_first_of("*+?[](){}|^$\\") != std::string::npos;
  if (is_pattern) {
    try {
      pattern = std::regex(key, std::regex::ECMAScript | std::regex::optimize);
    } catch (const std::regex_error& e) {
      fail(ErrorKind::kInvalidInput, "layer_config: '", key, "' is not a regular expression: ", e.what());
    }
  }
  return matching(layers, key, [&](const std::string& name) {
    return is_pattern ? std::regex_search(name, pattern) : name.find(key) != std::string::npos;
  });
}

void apply_shape_rule(LayerDecision& decision, const LayerShape& layer) {
  if (decision.scheme.bits == 16) return;
  if (layer.in % kMinDivisor == 0 && layer.out % kMinDivisor == 0) return;
  decision.scheme.bits = 16;
  decision.reason =
      cat("stays at 16 bits: [", layer.out, ", ", layer.in, "] is not a multiple of ", kMinDivisor);
}

using FusedGroups = std::map<std::string, std::vector<LayerDecision*>>;

FusedGroups fused_groups(std::span<const LayerShape> layers, std::vector<LayerDecision>& decisions) {
  FusedGroups groups;
  for (size_t i = 0; i < layers.size(); ++i)
    if (!layers[i].fused.empty()) groups[layers[i].fused].push_back(&decisions[i]);
  return groups;
}

// Engines that hold a fused group as one tensor can't read it under several schemes.
void settle_fused(std::vector<LayerDecision*>& group, bool align) {
  const LayerDecision& first = *group.front();
  if (std::ranges::all_of(group, [&](const LayerDecision* d) { return d->scheme == first.scheme; })) return;
  if (!align) {
    std::string members;
    for (const LayerDecision* d : group)
      members += cat(members.empty() ? "" : ", ", d->name, " (", to_string(d->scheme), ")");
    log_warning("engines that fuse these layers may refuse them, as their schemes differ: ", members,
                "; --align_fused gives them one");
    return;
  }
  const LayerDecision finest =
      **std::ranges::max_element(group, {}, [](const LayerDecision* d) { return d->scheme.bits; });
  for (LayerDecision* d : group)
    if (!(d->scheme == finest.scheme))
      *d = {d->name, finest.scheme, cat("as ", finest.name, ", with which it is fused")};
}

}  // namespace

std::string preset_names() {
  std::string names;
  for (const Preset& preset : kPresets) names += cat(names.empty() ? "" : ", ", preset.name);
  return names;
}

std::string to_string(const Scheme& scheme) {
  constexpr std::array kTypes = {"", " fp", " mx_fp", " nv_fp"};  // in the order of DataType
  if (scheme.bits == 16) return "16 bits";
  std::string group = scheme.group_size < 0    ? "per row"
                      : scheme.group_size == 0 ? "per tensor"
                      : scheme.group_rows > 1  ? cat("blocks of ", scheme.group_rows, "x", scheme.group_size)
                                               : cat("g", scheme.group_size);
  const char* symmetry = scheme.data_type != DataType::kInt ? "" : scheme.sym ? " sym" : " asym";
  return cat("W", scheme.bits, "A", scheme.activation.bits, kTypes[static_cast<size_t>(scheme.data_type)],
             " ", group, symmetry);
}

bool is_plain_integer(const Scheme& scheme) {
  return scheme.data_type == DataType::kInt && scheme.activation == ActivationScheme{};
}

WeightScheme stored_scheme(const Scheme& scheme) {
  WeightScheme stored{.element = scheme.data_type == DataType::kInt ? integer_element(scheme.bits)
                                 : scheme.bits == 4                 ? Element::kE2M1
                                                                    : Element::kE4M3FN,
                      .storage = scheme.bits == 4 ? CodeStorage::kNibbles : CodeStorage::kBytes,
                      .group = {scheme.group_size == 0 ? 0 : scheme.group_rows,
                                scheme.group_size < 0 ? 0 : scheme.group_size},
                      .sym = scheme.sym,
                      .activation = stored_activation(scheme.activation)};
  switch (scheme.data_type) {
    case DataType::kInt:
      stored.scale = ScaleCodec::kF16;
      if (scheme.bits < 8 || scheme.activation.bits == 16) stored.storage = CodeStorage::kWords;
      break;
    case DataType::kFp:
      if (scheme.group_rows == 1) stored.scale = ScaleCodec::kBF16;
      break;
    case DataType::kMxFp:
      stored.scale = ScaleCodec::kE8M0;
      break;
    case DataType::kNvFp:
      stored.scale = ScaleCodec::kE4M3FN;
      stored.has_divisor = true;
      break;
  }
  return stored;
}

Scheme scheme_from_name(std::string_view name) {
  std::string wanted = upper(name);
  for (const Preset& preset : kPresets)
    if (preset.name == wanted) return preset.scheme;
  throw Error(ErrorKind::kInvalidInput, cat("scheme '", name, "' is not known; known are ", preset_names()),
              "scheme");
}

void validate_scheme(const Scheme& scheme, std::string_view where) {
  if (!is_plain_integer(scheme) && scheme.bits != 16) {
    require(is_known_kind(scheme), ErrorKind::kInvalidInput, where, ": ", to_string(scheme),
            " can't be had; floats and quantized activations come in the presets' sizes: ", preset_names());
    if (scheme.data_type != DataType::kInt) return;
  }
  constexpr std::array kBits = {2, 3, 4, 8, 16};
  require(std::find(kBits.begin(), kBits.end(), scheme.bits) != kBits.end(), ErrorKind::kInvalidInput, where,
          ": bits must be 2, 3, 4, 8 or 16, got ", scheme.bits);
  require(scheme.group_size == -1 || (scheme.group_size >= 16 && scheme.group_size % 16 == 0),
          ErrorKind::kInvalidInput, where, ": group_size must be -1 or a positive multiple of 16, got ",
          scheme.group_size);
}

std::vector<LayerDecision> decide_layers(const LayerRules& rules, std::span<const LayerShape> layers) {
  validate_scheme(rules.base, "scheme");
  std::vector<LayerDecision> decisions;
  for (const LayerShape& layer : layers) decisions.push_back({layer.name, rules.base, ""});
  std::vector<bool> named_exactly(layers.size(), false);
  for (const auto& [key, rule] : rules.layer_config) {
    std::string where = cat("layer_config: '", key, "'");
    Scheme scheme = overridden(rules.base, rule, where);
    std::vector<size_t> found = matching_rule(layers, key);
    require(!found.empty(), ErrorKind::kInvalidInput, where, " matches no layer of this model");
    for (size_t i : found) {
      bool exact = layers[i].name == key;
      if (named_exactly[i] && !exact) continue;
      named_exactly[i] = named_exactly[i] || exact;
      decisions[i] = {layers[i].name, scheme, cat("layer_config '", key, "'")};
    }
  }
  for (const std::string& entry : rules.ignore_layers) {
    require(!entry.empty(), ErrorKind::kInvalidInput, "ignore_layers: an entry is empty");
    std::vector<size_t> found =
        matching(layers, entry, [&](const std::string& name) { return ignored_by(entry, name); });
    require(!found.empty(), ErrorKind::kInvalidInput, "ignore_layers: '", entry,
            "' matches no layer of this model");
    for (size_t i : found) {
      decisions[i].scheme.bits = 16;
      decisions[i].reason = cat("ignore_layers '", entry, "'");
    }
  }
  for (size_t i = 0; i < layers.size(); ++i) apply_shape_rule(decisions[i], layers[i]);
  for (auto& [name, group] : fused_groups(layers, decisions)) settle_fused(group, rules.align_fused);
  return decisions;
}

}  // namespace quaver::quantize
