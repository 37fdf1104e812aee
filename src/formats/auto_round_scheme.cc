#include "formats/auto_round_scheme.h"

#include <algorithm>

namespace quaver {
namespace {

// One way to store a layer. A data type that ends in '*' stands for all that begin so: what follows says how
// scales were found.
struct DataType {
  const char* name;
  int bits;
  WeightScheme scheme;
};

const std::vector<DataType>& data_types() {
  using Storage = CodeStorage;
  static const std::vector<DataType> rows = {
      {"mx_fp*",
       4,
       {.element = Element::kE2M1,
        .storage = Storage::kNibbles,
        .group = {1, 32},
        .scale = ScaleCodec::kE8M0}},
      {"mx_fp*", 8, {.element = Element::kE4M3FN, .group = {1, 32}, .scale = ScaleCodec::kE8M0}},
      {"nv_fp*",
       4,
       {.element = Element::kE2M1,
        .storage = Storage::kNibbles,
        .group = {1, 16},
        .scale = ScaleCodec::kE4M3FN,
        .has_divisor = true}},
      {"nvfp4_v2",
       4,
       {.element = Element::kE2M1,
        .storage = Storage::kNibbles,
        .group = {1, 16},
        .scale = ScaleCodec::kE5M3}},
      {"mx_int",
       4,
       {.element = Element::kInt4,
        .storage = Storage::kNibbles,
        .group = {1, 32},
        .scale = ScaleCodec::kE8M0,
        .sign_magnitude = true}},
      {"fp*", 8, {.element = Element::kE4M3FN}},
  };
  return rows;
}

bool names(const DataType& row, std::string_view type) {
  std::string_view name = row.name;
  if (!name.ends_with('*')) return type == name;
  name.remove_suffix(1);
  return type.starts_with(name);
}

// [rows, columns] of a block, 0 for the whole tensor, -1 for the row, or columns.
Extent2d parse_group(const json& settings, const char* key, Extent2d fallback, const std::string& what) {
  const auto value = settings.find(key);
  if (value == settings.end() || value->is_null()) return fallback;
  constexpr int64_t kLargest = int64_t{1} << 31;
  if (value->is_array()) {
    const auto sizes = json_value<std::vector<int64_t>>(settings, key, {}, what);
    require(sizes.size() == 2 &&
                std::all_of(sizes.begin(), sizes.end(), [](int64_t n) { return n > 0 && n <= kLargest; }),
            ErrorKind::kBadFile, what, ": ", key, " ", sizes, "; expected two positive numbers");
    return {sizes[0], sizes[1]};
  }
  const auto size = json_value<int64_t>(settings, key, 0, what);
  require(size >= -1 && size <= kLargest, ErrorKind::kBadFile, what, ": ", key, " ", size,
          "; expected -1, 0 or a positive number");
  if (size <= 0) return {size == 0 ? 0 : 1, 0};
  return {1, size};
}

const DataType& find_data_type(const json& settings, const char* type_key, const char* bits_key,
                               const std::string& what) {
  const std::string type = json_value<std::string>(settings, type_key, "int", what);
  const int bits = json_value<int>(settings, bits_key, 16, what);
  for (const DataType& row : data_types())
    if (names(row, type) && bits == row.bits) return row;
  fail(ErrorKind::kUnsupported, what, ": ", type_key, " '", type.substr(0, 80), "' with ", bits,
       " bits is not supported; 'fp' and 'mx_fp' with 8 and 'mx_fp', 'nv_fp', 'nvfp4_v2' and 'mx_int' with 4 "
       "are");
}

ActivationQuant parse_activation(const json& settings, const std::string& what) {
  ActivationQuant activation;
  if (json_value<int>(settings, "act_bits", 16, what) >= 16) return activation;
  const DataType& row = find_data_type(settings, "act_data_type", "act_bits", what);
  const Extent2d group = parse_group(settings, "act_group_size", row.scheme.group, what);
  require(group.rows <= 1 && (!row.scheme.scale || group == row.scheme.group), ErrorKind::kUnsupported, what,
          ": act_group_size ", settings.value("act_group_size", json()).dump().substr(0, 80),
          " is not supported for act_data_type '", row.name, "'");
  activation.mode = ActivationQuant::Mode::kDynamic;
  activation.element = row.scheme.element;
  activation.group = group.cols != 0 ? group.cols : (group.rows == 0 ? 0 : -1);
  if (row.scheme.scale) activation.scale = *row.scheme.scale;
  if (json_value<std::string>(settings, "act_data_type", "", what).ends_with("_rceil"))
    activation.power_of_two = PowerOfTwo::kFit;
  if (row.scheme.sign_magnitude) {
    activation.narrow = true;
    activation.super_scale = 0.25f;
  }
  if (json_value<bool>(settings, "act_dynamic", true, what)) return activation;
  require(!row.scheme.scale && activation.group == 0, ErrorKind::kUnsupported, what,
          ": act_dynamic false is supported for 8-bit floats with one scale only");
  activation.mode = ActivationQuant::Mode::kStatic;
  return activation;
}

using Mode = ActivationQuant::Mode;

// What the tool packs, in its own words.
struct Packing {
  const char* name;  // null: the key is left out
  Element element;
  Extent2d group;
  std::optional<ScaleCodec> scale;
  Mode mode;
  json settings;
};

const std::vector<Packing>& packings() {
  const char* kCompressed = "auto_round:llm_compressor";
  static const std::vector<Packing> rows = {
      {kCompressed,
       Element::kE2M1,
       {1, 32},
       ScaleCodec::kE8M0,
       Mode::kDynamic,
       {{"data_type", "mx_fp"}, {"group_size", 32}, {"act_data_type", "mx_fp"}, {"act_group_size", 32}}},
      {kCompressed,
       Element::kE4M3FN,
       {1, 32},
       ScaleCodec::kE8M0,
       Mode::kDynamic,
       {{"data_type", "mx_fp"}, {"group_size", 32}, {"act_data_type", "mx_fp"}, {"act_group_size", 32}}},
      {kCompressed,
       Element::kE2M1,
       {1, 16},
       ScaleCodec::kE4M3FN,
       Mode::kDynamic,
       {{"data_type", "nv_fp"},
        {"group_size", 16},
        {"act_data_type", "nv_fp4_with_static_gs"},
        {"act_group_size", 16}}},
      {"auto_round:fp8_static",
       Element::kE4M3FN,
       {1, 0},
       ScaleCodec::kBF16,
       Mode::kStatic,
       {{"data_type", "fp"},
        {"group_size", -1},
        {"fmt", "e4m3"},
        {"act_data_type", "fp"},
        {"act_group_size", 0}}},
      {"auto_round:fp8",
       Element::kE4M3FN,
       {128, 128},
       std::nullopt,
       Mode::kDynamic,
       {{"data_type", "fp"},
        {"group_size", {128, 128}},
        {"weight_block_size", {128, 128}},
        {"fmt", "e4m3"},
        {"act_data_type", "fp"},
        {"act_group_size", 128}}},
      {nullptr,
       Element::kE4M3FN,
       {0, 0},
       ScaleCodec::kBF16,
       Mode::kNone,
       {{"data_type", "fp"}, {"group_size", 0}, {"fmt", "e4m3"}}},
  };
  return rows;
}

}  // namespace

json scaled_settings(const WeightScheme& scheme) {
  const std::vector<Packing>& rows = packings();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Packing& p) {
    return p.element == scheme.element && p.group == scheme.group && (!p.scale || p.scale == scheme.scale) &&
           p.mode == scheme.activation.mode;
  });
  require(row != rows.end(), ErrorKind::kInvalidInput, "this format does not write ", describe(scheme),
          scheme.activation.mode == Mode::kNone ? "" : " under quantized activations",
          "; MXFP4, MXFP8, NVFP4, FP8_STATIC, FP8_BLOCK, FPW8A16 and weight-only integers are written");
  json settings = row->settings;
  settings["bits"] = element_info(scheme.element).bits;
  settings["sym"] = true;
  if (row->name) settings["packing_format"] = row->name;
  if (scheme.activation.mode == Mode::kNone) return settings;
  settings.update({{"act_bits", element_info(scheme.activation.element).bits},
                   {"act_dynamic", scheme.activation.mode == Mode::kDynamic},
                   {"act_sym", true}});
  if (settings.contains("fmt"))
    settings["activation_scheme"] = scheme.activation.mode == Mode::kDynamic ? "dynamic" : "static";
  return settings;
}

bool has_scaled_data_type(const json& settings, const std::string& what) {
  const std::string type = json_value<std::string>(settings, "data_type", "int", what);
  return std::any_of(data_types().begin(), data_types().end(),
                     [&](const DataType& row) { return names(row, type); });
}

WeightScheme parse_scaled_scheme(const json& settings, const std::string& what) {
  const DataType& row = find_data_type(settings, "data_type", "bits", what);
  WeightScheme scheme = row.scheme;
  require(json_value<bool>(settings, "sym", true, what), ErrorKind::kUnsupported, what,
          ": sym false is not supported for data_type '", row.name, "'");
  scheme.group = parse_group(settings, "group_size", scheme.group, what);
  require(!row.scheme.scale || scheme.group == row.scheme.group, ErrorKind::kUnsupported, what,
          ": group_size ", settings.value("group_size", json()).dump().substr(0, 80),
          " is not supported for data_type '", row.name, "'; ", row.scheme.group.cols, " is");
  const std::string fmt = json_value<std::string>(settings, "fmt", "e4m3", what);
  if (!row.scheme.scale && fmt == "e5m2") scheme.element = Element::kE5M2;
  scheme.activation = parse_activation(settings, what);
  return scheme;
}

}  // namespace quaver
