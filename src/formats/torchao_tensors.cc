#include "formats/torchao_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "formats/bitstream.h"
#include "formats/layer_reader.h"

namespace quaver {
namespace {

using Mode = ActivationQuant::Mode;

// The classes, and the parts that each must and may have.
struct Class {
  const char* name;
  std::vector<std::string_view> required, optional;
};

const std::array kClasses = {
    Class{"Float8Tensor", {"qdata", "scale"}, {"act_pre_scale"}},
    Class{"Int8Tensor", {"qdata", "scale"}, {"zero_point", "act_pre_scale"}},
    Class{"IntxUnpackedToInt8Tensor", {"qdata", "scale", "zero_point"}, {}},
    Class{"Int4Tensor", {"qdata", "scale", "zero_point"}, {"act_pre_scale"}},
};

std::string part_name(std::string_view attribute) { return cat("_weight_", attribute); }

// An enumeration, dtype or the like is {"_type": ..., "_data": name}.
std::string name_in(const json& value, const std::string& what) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_object() ? json_value<std::string>(value, "_data", "", what) : "";
}

std::string type_in(const json& value, const std::string& what) {
  return value.is_object() ? json_value<std::string>(value, "_type", "", what) : "";
}

// Rows or the whole tensor; anything else has no kernel.
int64_t group_of_granularity(const json& kwargs, const std::string& what) {
  const std::string type = type_in(kwargs.value("granularity", json()), what);
  if (type == "PerRow" || type == "PerToken") return -1;
  require(type == "PerTensor", ErrorKind::kUnsupported, what, ": act_quant_kwargs with granularity '",
          type.substr(0, 80), "' is not supported; PerRow and PerTensor are");
  return 0;
}

// The name, or the number by which a pickle knows it.
std::string mapping_in(const json& kwargs, const std::string& what) {
  const json mapping = kwargs.value("mapping_type", json("SYMMETRIC"));
  const json number = mapping.is_object() ? mapping.value("_data", json()) : json();
  if (!number.is_number_integer()) return name_in(mapping, what);
  constexpr std::array kMappings = {"SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR", "ASYMMETRIC"};
  const auto place = number.get<int64_t>() - 1;
  require(place >= 0 && place < static_cast<int64_t>(kMappings.size()), ErrorKind::kBadFile, what,
          ": act_quant_kwargs with mapping_type ", number.get<int64_t>(), ", expected 1 to 3");
  return kMappings[static_cast<size_t>(place)];
}

ActivationQuant dynamic_int8(const json& kwargs, const std::string& what) {
  const std::string mapping = mapping_in(kwargs, what);
  require(mapping == "SYMMETRIC" || mapping == "ASYMMETRIC", ErrorKind::kUnsupported, what,
          ": act_quant_kwargs with mapping_type '", mapping.substr(0, 80), "' is not supported");
  require(!json_value<bool>(kwargs, "reduce_range", false, what), ErrorKind::kUnsupported, what,
          ": act_quant_kwargs with reduce_range is not supported");
  return {.mode = Mode::kDynamic,
          .element = Element::kInt8,
          .group = group_of_granularity(kwargs, what),
          .sym = mapping == "SYMMETRIC"};
}

ActivationQuant dynamic_float8(const json& kwargs, const std::string& what) {
  const std::string type = name_in(kwargs.value("float8_dtype", json("float8_e4m3fn")), what);
  require(type == "float8_e4m3fn", ErrorKind::kUnsupported, what, ": act_quant_kwargs with float8_dtype '",
          type.substr(0, 80), "' is not supported; 'float8_e4m3fn' is");
  return {.mode = Mode::kDynamic, .element = Element::kE4M3FN, .group = group_of_granularity(kwargs, what)};
}

// What becomes of the input, by any of the keys in use.
ActivationQuant activation_of(const json& data, const std::string& what) {
  if (const std::string name = name_in(data.value("activation_quantization", json()), what); !name.empty()) {
    require(name == "int8_asym_per_token" || name == "INT8_ASYM_PER_TOKEN", ErrorKind::kUnsupported, what,
            ": activation_quantization '", name.substr(0, 80),
            "' is not supported; 'int8_asym_per_token' is");
    return {.mode = Mode::kDynamic, .element = Element::kInt8, .group = -1, .sym = false};
  }
  const json wrapped = data.value("act_quant_kwargs", json());
  if (wrapped.is_null()) return {};
  const std::string type = type_in(wrapped, what);
  const json kwargs = wrapped.value("_data", json::object());
  if (type == "QuantizeTensorToInt8Kwargs") return dynamic_int8(kwargs, what);
  require(type == "QuantizeTensorToFloat8Kwargs", ErrorKind::kUnsupported, what,
          ": act_quant_kwargs of class '", type.substr(0, 80), "' is not supported");
  return dynamic_float8(kwargs, what);
}

Extent2d block_of(const json& data, const std::string& what) {
  const auto block = json_required<std::vector<int64_t>>(data, "block_size", what);
  require(block.size() == 2 && block[0] > 0 && block[1] > 0, ErrorKind::kBadFile, what, ": block_size ",
          block, "; expected two extents");
  return {block[0], block[1]};
}

// "int4" -> 4.
int intx_bits(const json& data, const std::string& what) {
  const std::string name = name_in(data.value("target_dtype", json()), what);
  const bool known = name.size() == 4 && name.starts_with("int") && name[3] >= '2' && name[3] <= '8';
  require(known, ErrorKind::kUnsupported, what, ": target_dtype '", name.substr(0, 80),
          "' is not supported; int2 to int8 are");
  return name[3] - '0';
}

// Bytes of signed codes to the canonical rows.
void read_signed_bytes(const LayerReader& reader, QuantWeight& weight) {
  const std::string part = part_name("qdata");
  const TensorView view = reader.read(part, {DType::kI8});
  require(view.shape.size() == 2, ErrorKind::kBadFile, reader.where(part), " has shape ", view.shape,
          ", expected two dimensions");
  weight.shape = reader.checked_shape(part, view.shape[0], view.shape[1]);
  const int bits = element_info(weight.element).bits, middle = 1 << (bits - 1);
  std::vector<uint8_t> codes;
  codes.reserve(view.data.size_bytes());
  for (const int8_t code : view.data.as<int8_t>()) {
    if (code < -middle || code >= middle)
      fail(ErrorKind::kBadFile, reader.where(part), " holds ", static_cast<int>(code), ", which ", bits,
           " bits can't be");
    codes.push_back(static_cast<uint8_t>(code + middle));
  }
  std::byte* target = nullptr;
  weight.codes = Buffer::allocate(static_cast<size_t>(weight.shape.rows * weight.row_bytes()), target);
  for (int64_t n = 0; n < weight.shape.rows; ++n)
    pack_codes(codes.data() + n * weight.shape.cols, bits, weight.shape.cols,
               target + n * weight.row_bytes());
}

void read_scales(const LayerReader& reader, QuantWeight& weight) {
  weight.scale =
      reader.scales(part_name("scale"), kFloatTypes, weight.num_group_rows(), weight.num_group_cols());
}

// Signed zero points; all 0 is the symmetric case.
void read_zero_points(const LayerReader& reader, QuantWeight& weight) {
  const std::string part = part_name("zero_point");
  if (!reader.has(part)) return;
  const TensorView view = reader.read(part, {DType::kI8});
  const std::vector<int64_t> expected{weight.num_group_rows(), weight.num_group_cols()};
  require(same_without_ones(view.shape, expected), ErrorKind::kBadFile, reader.where(part), " has shape ",
          view.shape, ", expected ", expected);
  const int middle = 1 << (element_info(weight.element).bits - 1);
  bool symmetric = true;
  std::vector<uint8_t> zeros;
  for (const int8_t zero : view.data.as<int8_t>()) {
    if (zero < -middle || zero >= middle)
      fail(ErrorKind::kBadFile, reader.where(part), " holds ", static_cast<int>(zero), ", expected ", -middle,
           " to ", middle - 1);
    symmetric &= zero == 0;
    zeros.push_back(static_cast<uint8_t>(zero + middle));
  }
  if (!symmetric) weight.offset = IntegerZeros{Buffer::copy_of(zeros)};
}

void read_integers(const LayerReader& reader, Extent2d block, QuantWeight& weight) {
  read_signed_bytes(reader, weight);
  weight.group = block;
  read_scales(reader, weight);
  read_zero_points(reader, weight);
}

// [groups, out] -> [out, groups], as floats.
std::vector<float> transposed(const LayerReader& reader, std::string_view attribute, int64_t groups,
                              int64_t out) {
  const std::string part = part_name(attribute);
  const TensorView view = reader.read(part, kFloatTypes);
  const std::vector<int64_t> expected{groups, out};
  require(view.shape == expected, ErrorKind::kBadFile, reader.where(part), " has shape ", view.shape,
          ", expected ", expected);
  const std::vector<float> stored = reader.floats(part, groups * out);
  std::vector<float> values(stored.size());
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t n = 0; n < out; ++n)
      values[static_cast<size_t>(n * groups + g)] = stored[static_cast<size_t>(g * out + n)];
  return values;
}

// w = scale * q + zero with signed q and a real zero; with codes q + 8 the minimum is 8 * scale - zero.
void read_int4(const LayerReader& reader, Extent2d block, const std::string& what, QuantWeight& weight) {
  const TensorView view = reader.read(part_name("qdata"), {DType::kU8, DType::kI8});
  require(view.shape.size() == 2, ErrorKind::kBadFile, reader.where(part_name("qdata")), " has shape ",
          view.shape, ", expected two dimensions");
  weight.shape = reader.checked_shape(part_name("qdata"), view.shape[0], view.shape[1] * 2);
  require(block.rows == 1 && weight.shape.cols % block.cols == 0, ErrorKind::kBadFile, what, ": block_size [",
          block.rows, ", ", block.cols, "] does not divide rows of ", weight.shape.cols);
  std::vector<uint8_t> codes(view.data.as<uint8_t>().begin(), view.data.as<uint8_t>().end());
  for (uint8_t& pair : codes) pair ^= 0x88;
  weight.codes = Buffer::copy_of(codes);
  weight.group = block;
  const int64_t groups = weight.num_group_cols();
  const std::vector<float> scales = transposed(reader, "scale", groups, weight.shape.rows);
  std::vector<float> mins = transposed(reader, "zero_point", groups, weight.shape.rows);
  for (size_t i = 0; i < mins.size(); ++i) mins[i] = 8 * scales[i] - mins[i];
  weight.scale = {.codec = ScaleCodec::kF32, .data = Buffer::copy_of(scales)};
  weight.offset = RealMins{{.codec = ScaleCodec::kF32, .data = Buffer::copy_of(mins)}};
}

void read_float8(const LayerReader& reader, Extent2d block, QuantWeight& weight) {
  const std::string part = part_name("qdata");
  read_codes(reader, part, CodeLayout::kRows, weight);
  weight.group = block;
  read_scales(reader, weight);
}

}  // namespace

TorchAoParameter parse_torchao_parameter(const std::string& text, const std::string& what) {
  const json body = parse_json(text, what, {.max_bytes = 1 << 16, .max_depth = 16});
  require(body.is_object(), ErrorKind::kBadFile, what, " must be an object");
  TorchAoParameter parameter{.type = json_required<std::string>(body, "_type", what)};
  if (parameter.type == "Tensor") return {};
  parameter.data = body.value("_data", json::object());
  require(parameter.data.is_object(), ErrorKind::kBadFile, what, ": key '_data' must be an object");
  parameter.parts = json_required<std::vector<std::string>>(body, "_tensor_data_names", what);
  return parameter;
}

void check_torchao_parameter(const TorchAoParameter& parameter, const std::string& what) {
  const auto found = std::find_if(kClasses.begin(), kClasses.end(),
                                  [&](const Class& row) { return parameter.type == row.name; });
  std::string names;
  for (const Class& row : kClasses) names += (names.empty() ? "" : ", ") + std::string(row.name);
  require(found != kClasses.end(), ErrorKind::kUnsupported, what, ": class '", parameter.type.substr(0, 80),
          "' is not supported; supported are ", names);
  const auto holds = [](const auto& list, std::string_view name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  for (const std::string_view part : found->required)
    require(holds(parameter.parts, part), ErrorKind::kBadFile, what, ": a ", found->name, " has no '", part,
            "'");
  for (const std::string& part : parameter.parts)
    require(holds(found->required, part) || holds(found->optional, part), ErrorKind::kUnsupported, what,
            ": a ", found->name, " with '", part.substr(0, 80), "' is not supported");
  activation_of(parameter.data, what);
  block_of(parameter.data, what);
}

QuantWeight unpack_torchao(const LayerPlan& plan, const Checkpoint& checkpoint) {
  const LayerReader reader(plan, checkpoint);
  const std::string what = reader.what();
  const std::string type = plan.scheme.at("type");
  const json& data = plan.scheme.at("data");
  const Extent2d block = block_of(data, what);
  QuantWeight weight;
  if (type == "Float8Tensor") {
    weight.element = Element::kE4M3FN;
    read_float8(reader, block, weight);
  } else if (type == "Int4Tensor") {
    weight.element = Element::kInt4;
    read_int4(reader, block, what, weight);
  } else {
    weight.element = integer_element(type == "Int8Tensor" ? 8 : intx_bits(data, what));
    read_integers(reader, block, weight);
  }
  weight.activation = activation_of(data, what);
  if (reader.has(part_name("act_pre_scale")))
    weight.input_multiplier = reader.floats(part_name("act_pre_scale"), weight.shape.cols);
  validate(weight, what);
  return weight;
}

}  // namespace quaver
