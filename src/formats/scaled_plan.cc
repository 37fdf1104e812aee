// Which tensors make a layer of codes and scales, and which of the settings' schemes fits them.
#include <algorithm>

#include "base/log.h"
#include "formats/scaled_parts.h"

namespace quaver {
namespace {

using Shape = std::vector<int64_t>;

bool is_plain_float(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16 || type == DType::kF64;
}

bool is_float8(DType type) {
  return type == DType::kF8E4M3 || type == DType::kF8E5M2 || type == DType::kF8E4M3FNUZ;
}

bool is_one_of(DType type, std::initializer_list<DType> types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

// "tensor 'x' has dtype f32, expected u8"; empty when the condition holds.
std::string dtype_problem(const TensorInfo& info, bool fits, std::string_view expected) {
  if (fits) return "";
  return cat("tensor '", info.name, "' has dtype ", dtype_info(info.dtype).name, ", expected ", expected);
}

std::string codes_problem(const TensorInfo& codes, const WeightScheme& scheme) {
  const bool integer = element_info(scheme.element).integer;
  switch (scheme.storage) {
    case CodeStorage::kNibbles:
      return dtype_problem(codes, codes.dtype == DType::kU8, "u8");
    case CodeStorage::kWords:
      return dtype_problem(codes, is_one_of(codes.dtype, {DType::kI32, DType::kU32}), "i32");
    default:
      if (integer) return dtype_problem(codes, codes.dtype == DType::kI8, "i8");
      // Groups of 32 may hold 8-bit floats widened to bf16.
      const bool widened = codes.dtype == DType::kBF16 && scheme.scale == ScaleCodec::kE8M0;
      return dtype_problem(codes, is_float8(codes.dtype) || widened, "an 8-bit float");
  }
}

std::string scale_dtype_problem(const TensorInfo& info, const WeightScheme& scheme) {
  const bool power_of_two = is_one_of(info.dtype, {DType::kF8E8M0, DType::kU8});
  if (!scheme.scale) {
    const bool floating = is_one_of(info.dtype, {DType::kF32, DType::kF16, DType::kBF16});
    return dtype_problem(info, floating || (power_of_two && scheme.group.rows > 1), "f32, f16 or bf16");
  }
  if (*scheme.scale == ScaleCodec::kE4M3FN)
    return dtype_problem(info, info.dtype == DType::kF8E4M3, "f8_e4m3");
  if (*scheme.scale == ScaleCodec::kE5M3) return dtype_problem(info, info.dtype == DType::kU8, "u8");
  return dtype_problem(info, power_of_two, "u8");
}

// Without the extents of 1, which mean nothing: [], [1], [N], [N, 1] and [N/128, 1, K/128, 1] occur.
Shape squeezed(const Shape& shape) {
  Shape rest;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(rest), [](int64_t n) { return n != 1; });
  return rest;
}

std::string shape_problem(const TensorInfo& info, const Shape& expected) {
  if (squeezed(info.shape) == squeezed(expected)) return "";
  return cat("tensor '", info.name, "' has shape ", info.shape, ", expected ", expected);
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::string zero_point_problem(const TensorInfo& info, const WeightScheme& scheme, Extent2d shape,
                               Extent2d grid) {
  if (scheme.storage == CodeStorage::kBytes) {
    const std::string problem = dtype_problem(info, info.dtype == DType::kI8, "i8");
    return problem.empty() ? shape_problem(info, {grid.rows, grid.cols}) : problem;
  }
  const std::string problem = dtype_problem(info, info.dtype == DType::kI32, "i32");
  const int bits = element_info(scheme.element).bits;
  if (!problem.empty() || squeezed(info.shape) == squeezed({padded_words(shape.rows, bits), grid.cols}))
    return problem;
  return shape_problem(info, {dense_words(shape.rows, bits), grid.cols});
}

// Parts that the scheme has no use for, or lacks.
std::string presence_problem(const ScaledParts& parts, const WeightScheme& scheme) {
  const bool is_static = scheme.activation.mode == ActivationQuant::Mode::kStatic;
  const bool has_super = scheme.activation.mode == ActivationQuant::Mode::kDynamic &&
                         scheme.activation.scale == ScaleCodec::kE4M3FN;
  const bool words = scheme.storage == CodeStorage::kWords, integer = element_info(scheme.element).integer;
  const struct {
    Part part;
    bool wanted, allowed;
  } rows[] = {{Part::kScale, true, true},
              {Part::kDivisor, scheme.has_divisor, scheme.has_divisor},
              {Part::kZeroPoint, !scheme.sym, integer},
              {Part::kGroupIndex, scheme.ordered, words},
              {Part::kShape, false, words},
              {Part::kInputScale, is_static, is_static},
              {Part::kInputZeroPoint, is_static && !scheme.activation.sym, is_static},
              {Part::kInputDivisor, has_super, has_super}};
  for (const auto& row : rows) {
    if (parts[row.part] && !row.allowed) return cat("tensor '", parts[row.part]->name, "' has no use");
    if (parts[row.part] || !row.wanted) continue;
    const auto name = std::find_if(kPartNames.begin(), kPartNames.end(),
                                   [&](const PartName& entry) { return entry.part == row.part; });
    return cat("tensor '", name->suffix, "' is missing beside '", parts[Part::kCodes]->name, "'");
  }
  return "";
}

// Empty when these tensors can hold this scheme.
std::string misfit(const ScaledParts& parts, const WeightScheme& scheme) {
  const TensorInfo& codes = *parts[Part::kCodes];
  std::string problem = codes_problem(codes, scheme);
  if (problem.empty()) problem = presence_problem(parts, scheme);
  if (problem.empty()) problem = scale_dtype_problem(*parts[Part::kScale], scheme);
  if (!problem.empty()) return problem;
  const Extent2d shape = parts.shape(scheme.storage, element_info(scheme.element).bits);
  const Extent2d group = ScaledParts::group_of(scheme, shape);
  const Extent2d grid{ceil_div(shape.rows, group.rows), ceil_div(shape.cols, group.cols)};
  problem = shape_problem(*parts[Part::kScale], {grid.rows, grid.cols});
  if (problem.empty() && parts[Part::kZeroPoint])
    problem = zero_point_problem(*parts[Part::kZeroPoint], scheme, shape, grid);
  return problem;
}

std::string origin(const WeightScheme& scheme) {
  return scheme.rule.empty() ? "the defaults" : cat("'", scheme.rule, "'");
}

const WeightScheme& choose_scheme(const ScaledParts& parts, const std::vector<WeightScheme>& candidates) {
  const WeightScheme* complaint = nullptr;
  for (const WeightScheme& scheme : candidates) {
    if (scheme.plain) continue;
    if (!complaint) complaint = &scheme;
    if (!misfit(parts, scheme).empty()) continue;
    if (&scheme != &candidates.front())
      log_warning(parts.where(Part::kCodes), " is stored as ", describe(scheme), " although ",
                  origin(candidates.front()), " in the quantization settings asks for ",
                  describe(candidates.front()), "; reading what is stored");
    return scheme;
  }
  require(complaint != nullptr, ErrorKind::kBadFile, parts.where(Part::kCodes),
          " is quantized, but nothing in the quantization settings is meant for it");
  const TensorInfo& codes = *parts[Part::kCodes];
  fail(ErrorKind::kBadFile, parts.where(Part::kCodes).substr(0, parts.where(Part::kCodes).find(": tensor")),
       ": ", misfit(parts, *complaint), " for layer '", codes.name.substr(0, codes.name.rfind('.')), "' as ",
       describe(*complaint), " by ", origin(*complaint), " of the quantization settings");
}

// True for an unquantized layer or none at all; throws where scales have no codes beside them.
bool is_plain(const ScaledParts& parts, std::string_view layer) {
  if (parts[Part::kCodes]) return is_plain_float(parts[Part::kCodes]->dtype) && !parts[Part::kScale];
  for (Part part : {Part::kScale, Part::kDivisor, Part::kZeroPoint, Part::kGroupIndex, Part::kShape,
                    Part::kInputScale, Part::kInputDivisor})
    require(!parts[part], ErrorKind::kBadFile, parts[part] ? parts.where(part) : "",
            " has no weight of layer '", layer, "' beside it");
  return true;
}

}  // namespace

bool has_scaled_parts(const Checkpoint& checkpoint, std::string_view layer) {
  const ScaledParts parts(checkpoint, layer);
  return parts[Part::kScale] || (parts[Part::kCodes] && !is_plain_float(parts[Part::kCodes]->dtype));
}

LayerPlan plan_scaled_layer(const Checkpoint& checkpoint, std::string_view layer,
                            const std::vector<WeightScheme>& candidates) {
  const ScaledParts parts(checkpoint, layer);
  LayerPlan plan{.layer = std::string(layer)};
  if (is_plain(parts, layer)) {
    if (parts[Part::kCodes] && !candidates.empty() && candidates.front().named && !candidates.front().plain)
      log_warning(parts.where(Part::kCodes), " is plain although ", origin(candidates.front()),
                  " in the quantization settings asks for ", describe(candidates.front()),
                  "; reading what is stored");
    return plan;
  }
  plan.scheme = scheme_to_json(choose_scheme(parts, candidates));
  plan.tensors = parts.names();
  return plan;
}

}  // namespace quaver
