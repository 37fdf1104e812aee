#include "formats/quant_weight.h"

#include <array>
#include <cmath>

#include "base/error.h"
#include "formats/bitstream.h"
#include "numerics/element_value.h"
#include "numerics/scale_value.h"

namespace quaver {
namespace {

size_t codec_bytes(ScaleCodec codec) { return static_cast<size_t>(scale_codec_info(codec).bytes); }

std::vector<float> decode_one_level(const Scales& scales) {
  const size_t bytes = codec_bytes(scales.codec);
  std::vector<float> values(scales.data.size_bytes() / bytes);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = scale_value(scales.codec, scales.data.bytes().data() + i * bytes);
  return values;
}

size_t level_bytes(const Scales& scales) {
  return scales.data.size_bytes() + (scales.super ? level_bytes(*scales.super) : 0);
}

// Where the groups of one weight lie and what they multiply and subtract, as plain floats.
struct GroupTable {
  std::vector<float> scale, zero, min;  // `min` is empty unless the weight has real minima
  int64_t columns = 0;

  explicit GroupTable(const QuantWeight& w)
      : scale(decode_scales(w.scale)), zero(scale.size()), columns(w.num_group_cols()) {
    const ElementInfo& element = element_info(w.element);
    const float middle = element.integer ? static_cast<float>(1 << (element.bits - 1)) : 0.0f;
    if (const auto* zeros = std::get_if<IntegerZeros>(&w.offset)) {
      const auto stored = zeros->data.as<uint8_t>();
      for (size_t i = 0; i < zero.size(); ++i) zero[i] = static_cast<float>(stored[i]);
    } else if (const auto* mins = std::get_if<RealMins>(&w.offset)) {
      min = decode_scales(mins->mins);
    } else {
      zero.assign(zero.size(), middle);
    }
  }
};

// What each code stands for before scale and offset.
std::array<float, 256> values_of(Element element) {
  std::array<float, 256> values{};
  for (int code = 0; code < 1 << element_info(element).bits; ++code)
    values[static_cast<size_t>(code)] = element_value(element, static_cast<uint8_t>(code));
  return values;
}

void dequantize_run(const GroupTable& table, size_t group, std::span<const float> values, float* out) {
  const float scale = table.scale[group], zero = table.zero[group];
  const float min = table.min.empty() ? 0.0f : table.min[group];
  if (table.min.empty()) {
    for (size_t k = 0; k < values.size(); ++k) out[k] = scale * (values[k] - zero);
  } else {
    for (size_t k = 0; k < values.size(); ++k) out[k] = scale * values[k] - min;
  }
}

void dequantize_row(const QuantWeight& w, const GroupTable& table, int64_t row, std::span<const float> values,
                    float* out) {
  const size_t base = static_cast<size_t>(row / w.group.rows * table.columns);
  if (!w.permutation.empty()) {
    for (size_t k = 0; k < values.size(); ++k)
      dequantize_run(table, base + static_cast<size_t>(w.permutation[k] / w.group.cols), values.subspan(k, 1),
                     out + k);
    return;
  }
  for (int64_t first = 0; first < w.shape.cols; first += w.group.cols) {
    const int64_t count = std::min(w.group.cols, w.shape.cols - first);
    dequantize_run(table, base + static_cast<size_t>(first / w.group.cols),
                   values.subspan(static_cast<size_t>(first), static_cast<size_t>(count)), out + first);
  }
}

void validate_extents(const QuantWeight& w, std::string_view what) {
  require(w.shape.rows > 0 && w.shape.cols > 0, ErrorKind::kBadFile, what, ": shape [", w.shape.rows, ", ",
          w.shape.cols, "] has no elements");
  require(w.shape.rows <= (int64_t{1} << 31) && w.shape.cols <= (int64_t{1} << 31), ErrorKind::kBadFile, what,
          ": shape [", w.shape.rows, ", ", w.shape.cols, "] is too large");
  require(w.group.rows > 0 && w.group.cols > 0, ErrorKind::kBadFile, what, ": group [", w.group.rows, ", ",
          w.group.cols, "] is empty");
  const size_t expected = static_cast<size_t>(w.shape.rows) * static_cast<size_t>(w.row_bytes());
  require(w.codes.size_bytes() == expected, ErrorKind::kBadFile, what, ": codes take ", w.codes.size_bytes(),
          " bytes, expected ", expected);
}

// Integer scales of 4 and 6 bits lie in a byte each.
void validate_scale_codes(const Scales& scales, std::string_view what, std::string_view kind) {
  if (scales.codec != ScaleCodec::kU6 && scales.codec != ScaleCodec::kU4) return;
  const int largest = scales.codec == ScaleCodec::kU6 ? 63 : 15;
  for (const uint8_t code : scales.data.as<uint8_t>())
    require(code <= largest, ErrorKind::kBadFile, what, ": ", kind, " have the code ", static_cast<int>(code),
            ", expected at most ", largest);
}

void validate_scales(const Scales& scales, size_t count, std::string_view what, std::string_view kind) {
  const size_t expected = count * codec_bytes(scales.codec);
  require(scales.data.size_bytes() == expected, ErrorKind::kBadFile, what, ": ", kind, " take ",
          scales.data.size_bytes(), " bytes, expected ", expected);
  if (scales.super) {
    const size_t above = scales.super->data.size_bytes() / codec_bytes(scales.super->codec);
    require(above > 0 && count % above == 0, ErrorKind::kBadFile, what, ": ", above, " second-level ", kind,
            " do not divide ", count);
    validate_scales(*scales.super, above, what, kind);
  }
  validate_scale_codes(scales, what, kind);
  const std::vector<float> values = decode_scales(scales);
  for (size_t i = 0; i < values.size(); ++i)
    require(std::isfinite(values[i]), ErrorKind::kBadFile, what, ": entry ", i, " of ", values.size(), " ",
            kind, " is not finite");
}

// Eight-bit floats have codes that are no number; bytes are codes there.
void validate_codes(const QuantWeight& w, std::string_view what) {
  const ElementInfo& element = element_info(w.element);
  if (element.integer || element.bits != 8) return;
  std::array<bool, 256> bad{};
  for (size_t code = 0; code < bad.size(); ++code)
    bad[code] = !std::isfinite(element_value(w.element, static_cast<uint8_t>(code)));
  const auto codes = w.codes.as<uint8_t>();
  for (size_t i = 0; i < codes.size(); ++i)
    require(!bad[codes[i]], ErrorKind::kBadFile, what, ": the code of row ",
            i / static_cast<size_t>(w.shape.cols), ", column ", i % static_cast<size_t>(w.shape.cols),
            " is not a finite number");
}

void validate_offsets(const QuantWeight& w, size_t count, std::string_view what) {
  if (const auto* mins = std::get_if<RealMins>(&w.offset)) validate_scales(mins->mins, count, what, "minima");
  const auto* zeros = std::get_if<IntegerZeros>(&w.offset);
  if (!zeros) return;
  require(element_info(w.element).integer, ErrorKind::kBadFile, what, ": floats have integer zero points");
  require(zeros->data.size_bytes() == count, ErrorKind::kBadFile, what, ": ", zeros->data.size_bytes(),
          " zero points, expected ", count);
  const int largest = (1 << element_info(w.element).bits) - 1;
  for (uint8_t zero : zeros->data.as<uint8_t>())
    require(zero <= largest, ErrorKind::kBadFile, what, ": zero point ", static_cast<int>(zero),
            " is out of range 0 to ", largest);
}

void validate_permutation(const QuantWeight& w, std::string_view what) {
  if (w.permutation.empty()) return;
  require(static_cast<int64_t>(w.permutation.size()) == w.shape.cols, ErrorKind::kBadFile, what,
          ": the activation order has ", w.permutation.size(), " entries, expected ", w.shape.cols);
  std::vector<bool> seen(w.permutation.size());
  for (int32_t position : w.permutation) {
    require(position >= 0 && position < w.shape.cols && !seen[static_cast<size_t>(position)],
            ErrorKind::kBadFile, what, ": the activation order is not a permutation at ", position);
    seen[static_cast<size_t>(position)] = true;
  }
}

void validate_multipliers(const QuantWeight& w, std::string_view what) {
  if (w.input_multiplier.empty()) return;
  require(static_cast<int64_t>(w.input_multiplier.size()) == w.shape.cols, ErrorKind::kBadFile, what, ": ",
          w.input_multiplier.size(), " input multipliers, expected ", w.shape.cols);
  for (size_t k = 0; k < w.input_multiplier.size(); ++k)
    require(std::isfinite(w.input_multiplier[k]) && w.input_multiplier[k] != 0.0f, ErrorKind::kBadFile, what,
            ": the input multiplier of channel ", k, " is ", w.input_multiplier[k]);
}

// A zero scale loses whatever the codes said, so it is a fault unless the group is zero by its codes, too.
void validate_zero_scales(const QuantWeight& w, std::string_view what) {
  if (w.element == Element::kIQ4NL) return;  // none of its values is zero
  const GroupTable table(w);
  bool any = false;
  for (float scale : table.scale) any |= scale == 0.0f;
  if (!any || !table.min.empty()) return;
  const int bits = element_info(w.element).bits;
  for (int64_t row = 0; row < w.shape.rows; ++row) {
    const std::byte* codes = w.codes.bytes().data() + row * w.row_bytes();
    for (int64_t k = 0; k < w.shape.cols; ++k) {
      const int64_t position = w.permutation.empty() ? k : w.permutation[static_cast<size_t>(k)];
      const auto group = static_cast<size_t>(row / w.group.rows * table.columns + position / w.group.cols);
      if (table.scale[group] != 0.0f) continue;
      const float value = element_value(w.element, static_cast<uint8_t>(read_code(codes, k, bits)));
      require(value == table.zero[group], ErrorKind::kBadFile, what, ": the scale of row ", row, ", group ",
              position / w.group.cols, " is zero but its codes are not");
    }
  }
}

}  // namespace

size_t QuantWeight::size_bytes() const {
  size_t total = codes.size_bytes() + level_bytes(scale);
  if (const auto* zeros = std::get_if<IntegerZeros>(&offset)) total += zeros->data.size_bytes();
  if (const auto* mins = std::get_if<RealMins>(&offset)) total += level_bytes(mins->mins);
  return total;
}

std::vector<float> decode_scales(const Scales& scales) {
  std::vector<float> values = decode_one_level(scales);
  if (!scales.super) return values;
  if (const float divisor = scales.super->divisor; divisor != 0.0f) {
    for (float& value : values) value /= divisor;
    return values;
  }
  const std::vector<float> above = decode_scales(*scales.super);
  const size_t share = values.size() / above.size();
  for (size_t i = 0; i < values.size(); ++i) values[i] *= above[i / share];
  return values;
}

std::vector<float> dequantize(const QuantWeight& weight) {
  const ElementInfo& element = element_info(weight.element);
  const std::array<float, 256> meaning = values_of(weight.element);
  const GroupTable table(weight);
  const auto columns = static_cast<size_t>(weight.shape.cols);
  std::vector<float> result(static_cast<size_t>(weight.shape.rows) * columns), values(columns);
  std::vector<uint8_t> codes(columns);
  for (int64_t row = 0; row < weight.shape.rows; ++row) {
    unpack_codes(weight.codes.bytes().data() + row * weight.row_bytes(), element.bits, weight.shape.cols,
                 codes.data());
    for (size_t k = 0; k < columns; ++k) values[k] = meaning[codes[k]];
    float* out = result.data() + static_cast<size_t>(row) * columns;
    dequantize_row(weight, table, row, values, out);
    for (size_t k = 0; k < weight.input_multiplier.size(); ++k) out[k] *= weight.input_multiplier[k];
  }
  return result;
}

void validate(const QuantWeight& weight, std::string_view what) {
  validate_extents(weight, what);
  const auto count = static_cast<size_t>(weight.num_group_rows() * weight.num_group_cols());
  validate_scales(weight.scale, count, what, "scales");
  validate_permutation(weight, what);
  validate_multipliers(weight, what);
  validate_codes(weight, what);
  validate_offsets(weight, count, what);
  validate_zero_scales(weight, what);
}

}  // namespace quaver
