#include "formats/layer_reader.h"

#include <algorithm>
#include <cmath>

#include "formats/bitstream.h"

namespace quaver {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 31;

std::string type_names(std::initializer_list<DType> types) {
  std::string names;
  for (const DType type : types) names += (names.empty() ? "" : " or ") + std::string(dtype_info(type).name);
  return names;
}

ScaleCodec codec_of(DType type) {
  switch (type) {
    case DType::kF32:
      return ScaleCodec::kF32;
    case DType::kF16:
      return ScaleCodec::kF16;
    case DType::kBF16:
      return ScaleCodec::kBF16;
    case DType::kF8E4M3:
      return ScaleCodec::kE4M3FN;
    default:
      return ScaleCodec::kE8M0;
  }
}

std::initializer_list<DType> code_types(Element element, CodeLayout layout) {
  static const auto bytes = {DType::kU8}, signed_bytes = {DType::kI8};
  static const auto e4m3 = {DType::kF8E4M3}, e5m2 = {DType::kF8E5M2};
  if (layout == CodeLayout::kSignedRows) return signed_bytes;
  if (element == Element::kE4M3FN) return e4m3;
  return element == Element::kE5M2 ? e5m2 : bytes;
}

std::vector<int64_t> without_ones(std::vector<int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

// Two's complement to unsigned: the sign bit flips.
Buffer flip_signs(const Buffer& stored, uint8_t mask) {
  std::vector<uint8_t> codes(stored.as<uint8_t>().begin(), stored.as<uint8_t>().end());
  for (uint8_t& code : codes) code ^= mask;
  return Buffer::copy_of(codes);
}

Buffer split_row_pairs(const Buffer& stored, Extent2d shape) {
  const auto bytes = stored.as<uint8_t>();
  std::vector<uint8_t> row(static_cast<size_t>(shape.cols));
  const int64_t row_bytes = bitstream_bytes(shape.cols, 4);
  std::byte* target = nullptr;
  Buffer codes = Buffer::allocate(static_cast<size_t>(shape.rows * row_bytes), target);
  for (int64_t n = 0; n < shape.rows; ++n) {
    const auto pair = bytes.subspan(static_cast<size_t>(n / 2 * shape.cols), row.size());
    for (size_t k = 0; k < row.size(); ++k)
      row[k] = static_cast<uint8_t>((n % 2 ? pair[k] >> 4 : pair[k] & 15) ^ 8);
    pack_codes(row.data(), 4, shape.cols, target + n * row_bytes);
  }
  return codes;
}

}  // namespace

bool LayerReader::is_planned(const std::string& name) const {
  return std::find(plan_.tensors.begin(), plan_.tensors.end(), name) != plan_.tensors.end();
}

bool LayerReader::has(std::string_view part) const { return is_planned(name(part)); }

std::string LayerReader::name(std::string_view part) const {
  for (const PartAlias& other : aliases_)
    if (std::string name = cat(plan_.layer, ".", other.alias); other.part == part && is_planned(name))
      return name;
  return cat(plan_.layer, ".", part);
}

std::string LayerReader::what() const {
  return cat(checkpoint_.file_of(plan_.tensors.at(0)), ": layer '", plan_.layer, "'");
}

std::string LayerReader::where(std::string_view part) const {
  return cat(checkpoint_.file_of(name(part)), ": tensor '", name(part), "'");
}

TensorView LayerReader::read(std::string_view part, std::initializer_list<DType> types) const {
  TensorView view = checkpoint_.read(name(part));
  require(std::find(types.begin(), types.end(), view.dtype) != types.end(), ErrorKind::kBadFile, where(part),
          " has dtype ", dtype_info(view.dtype).name, ", expected ", type_names(types));
  return view;
}

float LayerReader::number(std::string_view part) const {
  const float value = floats(part, 1)[0];
  require(std::isfinite(value) && value > 0, ErrorKind::kBadFile, where(part), " holds ", value,
          ", expected a positive number");
  return value;
}

std::vector<float> LayerReader::floats(std::string_view part, int64_t count) const {
  const TensorView view = read(part, kFloatTypes);
  const size_t stored = view.data.size_bytes() / static_cast<size_t>(dtype_info(view.dtype).block_bytes);
  require(static_cast<int64_t>(stored) == count, ErrorKind::kBadFile, where(part), " has shape ", view.shape,
          ", expected ", count, count == 1 ? " entry" : " entries");
  return decode_scales({.codec = codec_of(view.dtype), .data = view.data});
}

Scales LayerReader::scales(std::string_view part, std::initializer_list<DType> types, int64_t rows,
                           int64_t cols) const {
  const TensorView view = read(part, types);
  const std::vector<int64_t> expected{rows, cols};
  require(same_without_ones(view.shape, expected), ErrorKind::kBadFile, where(part), " has shape ",
          view.shape, ", expected ", expected);
  return {.codec = codec_of(view.dtype), .data = view.data};
}

Extent2d LayerReader::checked_shape(std::string_view part, int64_t rows, int64_t cols) const {
  require(rows > 0 && cols > 0 && rows <= kMaxExtent && cols <= kMaxExtent, ErrorKind::kBadFile, where(part),
          " holds [", rows, ", ", cols, "], which is no matrix");
  const Extent2d stored{rows, cols};
  require(plan_.shape == Extent2d{} || plan_.shape == stored, ErrorKind::kBadFile, where(part), " holds [",
          rows, ", ", cols, "], expected [", plan_.shape.rows, ", ", plan_.shape.cols, "]");
  return stored;
}

void read_codes(const LayerReader& reader, std::string_view part, CodeLayout layout, QuantWeight& weight) {
  const TensorView view = reader.read(part, code_types(weight.element, layout));
  require(view.shape.size() == 2, ErrorKind::kBadFile, reader.where(part), " has shape ", view.shape,
          ", expected two dimensions");
  const int bits = element_info(weight.element).bits;
  const bool pairs = layout == CodeLayout::kRowPairs;
  require(pairs || view.shape[1] * 8 % bits == 0, ErrorKind::kBadFile, reader.where(part), " has shape ",
          view.shape, ", whose rows hold no whole number of ", bits, "-bit codes");
  weight.shape = pairs ? reader.checked_shape(part, view.shape[0] * 2, view.shape[1])
                       : reader.checked_shape(part, view.shape[0], view.shape[1] * 8 / bits);
  if (pairs)
    weight.codes = split_row_pairs(view.data, weight.shape);
  else
    weight.codes = layout == CodeLayout::kSignedRows ? flip_signs(view.data, 0x80) : view.data;
}

std::unique_ptr<Scales> single_scale(float value) {
  return std::make_unique<Scales>(Scales{.data = Buffer::copy_of(std::vector<float>{value})});
}

bool same_without_ones(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return without_ones(a) == without_ones(b);
}

bool is_plain_dtype(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16 || type == DType::kF64;
}

}  // namespace quaver
