#include "formats/compressed_tensors_args.h"

#include <algorithm>
#include <array>

#include "formats/compressed_tensors.h"

namespace quaver {
namespace {

// The values that matter of one set of arguments, checked for sense but not yet for support.
struct Args {
  int bits = 8;
  std::string type, strategy, scale_dtype;
  int64_t group_size = 0;
  Extent2d block;
  bool sym = true, dynamic = false, local = false, ordered = false;
};

constexpr int64_t kLargest = int64_t{1} << 31;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// [128, 128] or "128x128".
Extent2d parse_block(const json& args, const std::string& what) {
  const json value = args.value("block_structure", json());
  Extent2d block;
  if (value.is_array() && value.size() == 2 && value[0].is_number_integer() && value[1].is_number_integer())
    block = {value[0].get<int64_t>(), value[1].get<int64_t>()};
  if (value.is_string()) {
    const std::string text = value;
    char tail = 0;
    if (std::sscanf(text.c_str(), "%ldx%ld%c", &block.rows, &block.cols, &tail) != 2) block = {};
  }
  require(block.rows > 0 && block.cols > 0 && block.rows <= kLargest && block.cols <= kLargest,
          ErrorKind::kBadFile, what, ": block_structure ", value.dump().substr(0, 80),
          "; expected two positive numbers");
  return block;
}

std::string infer_strategy(const Args& args) {
  if (args.group_size > 0) return "group";
  return args.group_size == -1 ? "channel" : "tensor";
}

void parse_dynamic(const json& value, const std::string& what, Args& args) {
  if (value.is_null()) return;
  args.local = value == "local";
  require(args.local || value.is_boolean(), ErrorKind::kBadFile, what, ": dynamic ",
          value.dump().substr(0, 80), "; expected true, false or \"local\"");
  args.dynamic = args.local || value.get<bool>();
}

Args parse_args(const json& value, const std::string& what) {
  require(value.is_object(), ErrorKind::kBadFile, what, ": must be an object");
  Args args;
  args.bits = json_value<int>(value, "num_bits", 8, what);
  args.type = lower(json_value<std::string>(value, "type", "int", what));
  require(args.type == "int" || args.type == "float", ErrorKind::kUnsupported, what, ": type '",
          args.type.substr(0, 80), "' is not supported; 'int' and 'float' are");
  args.sym = json_value<bool>(value, "symmetric", true, what);
  args.group_size = json_value<int64_t>(value, "group_size", 0, what);
  require(args.group_size >= -1 && args.group_size <= kLargest, ErrorKind::kBadFile, what, ": group_size ",
          args.group_size, "; expected -1 or a positive number");
  args.strategy = lower(json_value<std::string>(value, "strategy", infer_strategy(args), what));
  args.scale_dtype = json_value<std::string>(value, "scale_dtype", "", what);
  if (args.strategy == "block") args.block = parse_block(value, what);
  require((args.strategy != "group" && args.strategy != "tensor_group") || args.group_size > 0,
          ErrorKind::kBadFile, what, ": strategy '", args.strategy, "' needs a group_size, got ",
          args.group_size);
  parse_dynamic(value.value("dynamic", json()), what, args);
  const json order = value.value("actorder", json());
  args.ordered = order == true || order == "group" || order == "dynamic";
  return args;
}

Extent2d group_of(const Args& args, const std::string& what) {
  if (args.strategy == "tensor") return {};
  if (args.strategy == "channel") return {1, 0};
  if (args.strategy == "group" || args.strategy == "tensor_group") return {1, args.group_size};
  require(args.strategy == "block", ErrorKind::kUnsupported, what, ": strategy '",
          args.strategy.substr(0, 80), "' is not supported for weights");
  return args.block;
}

// Powers of two, by the type that the settings give the scales or by the file's format.
bool has_power_of_two_scales(const Args& args, const std::string& format) {
  return args.type == "float" && args.strategy == "group" &&
         (args.scale_dtype.ends_with("uint8") || args.scale_dtype.ends_with("e8m0fnu") ||
          format.starts_with("mxfp"));
}

WeightScheme float4_scheme(const Args& args, const std::string& format, const std::string& what) {
  WeightScheme scheme{
      .element = Element::kE2M1, .storage = CodeStorage::kNibbles, .group = {1, args.group_size}};
  if (args.strategy == "tensor_group") {
    scheme.scale = format.starts_with("nvfp4-e5m3") ? ScaleCodec::kE5M3 : ScaleCodec::kE4M3FN;
    scheme.has_divisor = scheme.scale == ScaleCodec::kE4M3FN;
    return scheme;
  }
  require(has_power_of_two_scales(args, format), ErrorKind::kUnsupported, what, ": strategy '",
          args.strategy.substr(0, 80), "' is not supported for 4-bit floats; 'tensor_group' and 'group' are");
  scheme.scale = ScaleCodec::kE8M0;
  return scheme;
}

void refuse_formats(const std::string& format, const std::string& what) {
  static constexpr std::array kKnown = {"",
                                        "dense",
                                        "int-quantized",
                                        "float-quantized",
                                        "naive-quantized",
                                        "fakequant",
                                        "mixed-precision",
                                        "pack-quantized",
                                        "nvfp4-pack-quantized",
                                        "nvfp4-e5m3-pack-quantized",
                                        "mxfp4-pack-quantized",
                                        "mxfp8-quantized"};
  require(std::find(kKnown.begin(), kKnown.end(), format) != kKnown.end(), ErrorKind::kUnsupported, what,
          ": format '", format.substr(0, 80),
          "' is not supported; sparse ones have been given up by their makers");
}

}  // namespace

WeightScheme parse_compressed_weights(const json& weights, const std::string& format,
                                      const std::string& what) {
  refuse_formats(format, what);
  const Args args = parse_args(weights, what);
  require(!args.dynamic, ErrorKind::kUnsupported, what, ": dynamic weights are not supported");
  if (args.type == "float" && args.bits == 4) return float4_scheme(args, format, what);
  WeightScheme scheme{.group = group_of(args, what), .sym = args.sym};
  if (args.type == "float") {
    require(args.bits == 8 && args.sym, ErrorKind::kUnsupported, what, ": ", args.sym ? "" : "asymmetric ",
            args.bits, "-bit floats are not supported; symmetric ones of 4 and 8 bits are");
    if (has_power_of_two_scales(args, format)) scheme.scale = ScaleCodec::kE8M0;
    return scheme;
  }
  require(args.bits >= 2 && args.bits <= 8, ErrorKind::kUnsupported, what, ": ", args.bits,
          "-bit integers are not supported; 2 to 8 bits are");
  scheme.element = integer_element(args.bits);
  const bool packed = format == "pack-quantized" || format.empty() || format == "mixed-precision";
  scheme.storage = packed ? CodeStorage::kWords : CodeStorage::kBytes;
  scheme.ordered = args.ordered;
  return scheme;
}

ActivationQuant parse_compressed_activation(const json& value, const std::string& what) {
  if (value.is_null()) return {};
  const Args args = parse_args(value, what);
  if (args.bits >= 16) return {};
  const bool floating = args.type == "float";
  require(args.bits == 8 || (floating && args.bits == 4), ErrorKind::kUnsupported, what, ": ", args.bits,
          "-bit ", args.type, " activations are not supported");
  ActivationQuant activation{
      .mode = args.dynamic ? ActivationQuant::Mode::kDynamic : ActivationQuant::Mode::kStatic,
      .element = !floating ? Element::kInt8 : (args.bits == 4 ? Element::kE2M1 : Element::kE4M3FN),
      .sym = args.sym};
  require(args.dynamic || args.strategy == "tensor", ErrorKind::kUnsupported, what,
          ": static activations by '", args.strategy.substr(0, 80),
          "' are not supported; by 'tensor' they are");
  if (args.strategy == "token" || args.strategy == "channel") activation.group = -1;
  if (args.strategy == "group" || args.strategy == "tensor_group") activation.group = args.group_size;
  require(args.strategy == "tensor" || activation.group != 0, ErrorKind::kUnsupported, what, ": strategy '",
          args.strategy.substr(0, 80), "' is not supported for activations");
  if (args.strategy == "tensor_group") activation.scale = ScaleCodec::kE4M3FN;
  if (!has_power_of_two_scales(args, "")) return activation;
  activation.scale = ScaleCodec::kE8M0;
  activation.power_of_two = kCompressedTensorsFormat.input_power;  // of 8-bit elements too
  return activation;
}

KvCacheQuant parse_compressed_kv_cache(const json& value, const std::string& what) {
  const Args args = parse_args(value, what);
  require(args.type == "float" && args.bits == 8 && args.sym, ErrorKind::kUnsupported, what, ": ",
          args.sym ? "" : "asymmetric ", args.bits, "-bit ", args.type,
          " is not supported for the cache; symmetric 8-bit float is");
  require(args.strategy == "tensor" || args.strategy == "attn_head", ErrorKind::kUnsupported, what,
          ": strategy '", args.strategy.substr(0, 80),
          "' is not supported for the cache; 'tensor' and 'attn_head' are");
  return {.per_head = args.strategy == "attn_head", .dynamic = args.dynamic};
}

}  // namespace quaver
