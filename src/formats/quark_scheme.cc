// Quark's tensor specifications in this project's words.
#include <algorithm>
#include <array>

#include "formats/quark_config.h"

namespace quaver {
namespace {

using Mode = ActivationQuant::Mode;

struct TypeName {
  const char* name;
  Element element;
  bool sign;  // of integers
};

constexpr std::array kTypes = {
    TypeName{"fp8_e4m3", Element::kE4M3FN, true}, TypeName{"fp8_e5m2", Element::kE5M2, true},
    TypeName{"fp4", Element::kE2M1, true},        TypeName{"fp6_e3m2", Element::kE3M2, true},
    TypeName{"fp6_e2m3", Element::kE2M3, true},   TypeName{"int8", Element::kInt8, true},
    TypeName{"int4", Element::kInt4, true},       TypeName{"uint4", Element::kInt4, false},
};

// One specification, its fields as they stand.
struct Spec {
  const TypeName* type;
  std::string scheme, scale_format, power_of_two;
  int64_t group_size, axis;
  std::vector<int64_t> block;
  bool sym, dynamic, of_scales;
  std::string what;

  [[noreturn]] void refuse() const {
    fail(ErrorKind::kUnsupported, what, ": dtype '", type->name, "' with qscheme '", scheme.substr(0, 80),
         "', group_size ", group_size, ", ch_axis ", axis, ", scale_format '", scale_format.substr(0, 80),
         dynamic ? "', dynamic" : "', static", " is not supported");
  }
};

Spec parse_spec(const json& body, const std::string& what) {
  require(body.is_object(), ErrorKind::kBadFile, what, " must be an object");
  const auto dtype = json_required<std::string>(body, "dtype", what);
  const auto type =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeName& t) { return dtype == t.name; });
  require(type != kTypes.end(), ErrorKind::kUnsupported, what, ": dtype '", dtype.substr(0, 80),
          "' is not supported");
  return {.type = &*type,
          .scheme = json_value<std::string>(body, "qscheme", "", what),
          .scale_format = json_value<std::string>(body, "scale_format", "", what),
          .power_of_two = json_value<std::string>(body, "scale_calculation_mode", "even", what),
          .group_size = json_value<int64_t>(body, "group_size", 0, what),
          .axis = json_value<int64_t>(body, "ch_axis", -1, what),
          .block = json_value<std::vector<int64_t>>(body, "block_size", {}, what),
          .sym = json_value<bool>(body, "symmetric", true, what),
          .dynamic = json_value<bool>(body, "is_dynamic", false, what),
          .of_scales = json_value<bool>(body, "is_scale_quant", false, what),
          .what = what};
}

// One specification, or one of the codes and one of their scales.
std::vector<Spec> parse_specs(const json& layer, const char* key, std::string_view what) {
  const auto it = layer.find(key);
  if (it == layer.end() || it->is_null()) return {};
  std::vector<Spec> specs;
  if (!it->is_array()) return {parse_spec(*it, cat(what, ": ", key))};
  for (size_t i = 0; i < it->size(); ++i) specs.push_back(parse_spec((*it)[i], cat(what, ": ", key, " ", i)));
  require(specs.size() == 1 || (specs.size() == 2 && specs[1].of_scales), ErrorKind::kUnsupported, what, ": ",
          key, " has ", specs.size(), " levels, of which Quaver runs codes and scales only");
  return specs;
}

// Groups of 16 with scales of e4m3fn below one number.
bool is_two_level(const std::vector<Spec>& specs) {
  if (specs.size() < 2) return false;
  const Spec &codes = specs[0], &scales = specs[1];
  const bool known = codes.type->element == Element::kE2M1 && codes.scheme == "per_group" &&
                     codes.group_size == 16 && scales.type->element == Element::kE4M3FN &&
                     scales.scheme == "per_tensor" && !scales.dynamic;
  if (!known) codes.refuse();
  return true;
}

bool is_along_in(const Spec& spec) { return spec.axis == -1 || spec.axis == 1; }

Extent2d group_of(const Spec& spec) {
  if (spec.scheme == "per_tensor") return {0, 0};
  if (spec.scheme == "per_channel" && spec.axis == 0) return {1, 0};
  if (spec.scheme == "per_group" && spec.group_size > 0 && is_along_in(spec)) return {1, spec.group_size};
  if (spec.scheme == "per_block" && spec.block.size() == 2 && spec.block[0] > 0 && spec.block[1] > 0)
    return {spec.block[0], spec.block[1]};
  spec.refuse();
}

// Which combinations of element, grouping and scale are stored in a known way.
void check_weight(const Spec& spec, const QuarkScheme& scheme) {
  const bool grouped = scheme.group.rows == 1 && scheme.group.cols > 0;
  const bool mx = scheme.scale == ScaleCodec::kE8M0, eight = element_info(scheme.element).bits == 8;
  const bool integer = element_info(scheme.element).integer;
  bool known = eight ? mx == grouped : grouped && (integer ? !mx : mx != scheme.second);
  known &= !(integer && eight && (mx || scheme.group.rows > 1));
  known &= integer || spec.sym;
  if (!known || spec.dynamic) spec.refuse();
}

void read_weight(const std::vector<Spec>& specs, QuarkScheme& scheme) {
  const Spec& spec = specs[0];
  scheme.element = spec.type->element;
  scheme.signed_codes = spec.type->sign;
  scheme.sym = spec.sym;
  scheme.group = group_of(spec);
  scheme.second = is_two_level(specs);
  if (scheme.second)
    scheme.scale = ScaleCodec::kE4M3FN;
  else if (spec.scale_format == "e8m0")
    scheme.scale = ScaleCodec::kE8M0;
  if (scheme.element == Element::kInt8) scheme.layout = QuarkScheme::Layout::kSignedRows;
  if (scheme.element == Element::kInt4) scheme.layout = QuarkScheme::Layout::kWordsAlongOut;
  check_weight(spec, scheme);
}

// Elements of a row that share a scale, as ActivationQuant counts them.
int64_t input_group(const Spec& spec) {
  if (spec.scheme == "per_tensor") return 0;
  if (spec.dynamic && (spec.scheme == "per_token" || (spec.scheme == "per_channel" && is_along_in(spec))))
    return -1;
  if (spec.dynamic && spec.scheme == "per_group" && spec.group_size > 0 && is_along_in(spec))
    return spec.group_size;
  spec.refuse();
}

PowerOfTwo power_of_two(const Spec& spec) {
  if (spec.power_of_two == "floor") return PowerOfTwo::kFloor;
  if (spec.power_of_two == "ceil") return PowerOfTwo::kCeil;
  require(spec.power_of_two == "even", ErrorKind::kUnsupported, spec.what, ": scale_calculation_mode '",
          spec.power_of_two.substr(0, 80), "' is not supported; 'even', 'floor' and 'ceil' are");
  return PowerOfTwo::kRounded;
}

ActivationQuant read_input(const std::vector<Spec>& specs) {
  if (specs.empty()) return {};
  const Spec& spec = specs[0];
  if (spec.type->element == Element::kInt4) spec.refuse();
  ActivationQuant activation{.mode = spec.dynamic ? Mode::kDynamic : Mode::kStatic,
                             .element = spec.type->element,
                             .group = input_group(spec),
                             .sym = spec.sym};
  if (spec.scale_format == "e8m0") {
    activation.scale = ScaleCodec::kE8M0;
    activation.power_of_two = power_of_two(spec);
  }
  if (is_two_level(specs)) activation.scale = ScaleCodec::kE4M3FN;
  return activation;
}

void refuse_bias_and_output(const json& layer, std::string_view what) {
  const auto bias = layer.find("bias");
  require(bias == layer.end() || bias->is_null(), ErrorKind::kUnsupported, what,
          ": quantized biases are not supported");
}

}  // namespace

QuarkScheme parse_quark_scheme(const json& layer, std::string_view what) {
  require(layer.is_object(), ErrorKind::kBadFile, what, " must be an object");
  refuse_bias_and_output(layer, what);
  const std::vector<Spec> weight = parse_specs(layer, "weight", what);
  require(!weight.empty(), ErrorKind::kUnsupported, what,
          ": only the input is quantized, which is not supported; key 'weight' is null");
  QuarkScheme scheme;
  read_weight(weight, scheme);
  scheme.activation = read_input(parse_specs(layer, "input_tensors", what));
  return scheme;
}

}  // namespace quaver
