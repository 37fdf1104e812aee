// The canonical form, turned into codes and scales in tensors of their own.
#include <cstring>
#include <functional>

#include "formats/bitstream.h"
#include "formats/group_index.h"
#include "formats/scaled_parts.h"
#include "numerics/half.h"

namespace quaver {
namespace {

bool is_integer(const QuantWeight& w) { return element_info(w.element).integer; }
int bits_of(const QuantWeight& w) { return element_info(w.element).bits; }

void require_packable(const QuantWeight& w, std::string_view layer, bool as_words) {
  const bool known = is_integer(w) || w.element == Element::kE4M3FN || w.element == Element::kE5M2 ||
                     w.element == Element::kE4M3FNUZ || w.element == Element::kE2M1;
  require(known, ErrorKind::kInvalidInput, "layer '", layer, "': this format has no ",
          element_info(w.element).name);
  require(!std::holds_alternative<RealMins>(w.offset), ErrorKind::kInvalidInput, "layer '", layer,
          "': this format has no real minima, only integer zero points");
  const ScaleCodec codec = w.scale.codec;
  require(codec != ScaleCodec::kU6 && codec != ScaleCodec::kU4 && codec != ScaleCodec::kI8,
          ErrorKind::kInvalidInput, "layer '", layer, "': this format has no scales of type ",
          scale_codec_info(codec).name);
  require(!w.scale.super || (w.scale.super->codec == ScaleCodec::kF32 &&
                             w.scale.super->data.size_bytes() == 4 && codec == ScaleCodec::kE4M3FN),
          ErrorKind::kInvalidInput, "layer '", layer,
          "': this format has a second level of scales over e4m3fn ones only, and one number");
  require(w.permutation.empty() || as_words, ErrorKind::kInvalidInput, "layer '", layer,
          "': this format has an activation order for packed integers only");
}

DType dtype_of(ScaleCodec codec) {
  switch (codec) {
    case ScaleCodec::kF32:
      return DType::kF32;
    case ScaleCodec::kF16:
      return DType::kF16;
    case ScaleCodec::kBF16:
      return DType::kBF16;
    case ScaleCodec::kE4M3FN:
      return DType::kF8E4M3;
    default:
      return DType::kU8;
  }
}

DType dtype_of(Element element) {
  if (element == Element::kE5M2) return DType::kF8E5M2;
  if (element == Element::kE4M3FNUZ) return DType::kF8E4M3FNUZ;
  return element == Element::kE4M3FN ? DType::kF8E4M3 : DType::kU8;
}

// Rows of codes, each filled up to whole words.
TensorView pack_words(const QuantWeight& w) {
  const int64_t words = dense_words(w.shape.cols, bits_of(w));
  std::byte* target = nullptr;
  Buffer data = Buffer::allocate(static_cast<size_t>(w.shape.rows * words * 4), target);
  std::memset(target, 0, data.size_bytes());
  for (int64_t n = 0; n < w.shape.rows; ++n)
    std::memcpy(target + n * words * 4, w.codes.bytes().data() + n * w.row_bytes(),
                static_cast<size_t>(w.row_bytes()));
  return {DType::kI32, {w.shape.rows, words}, std::move(data)};
}

TensorView pack_signed(const QuantWeight& w) {
  const int middle = 1 << (bits_of(w) - 1);
  std::vector<uint8_t> codes(static_cast<size_t>(w.shape.rows * w.shape.cols));
  for (int64_t n = 0; n < w.shape.rows; ++n)
    unpack_codes(w.codes.bytes().data() + n * w.row_bytes(), bits_of(w), w.shape.cols,
                 codes.data() + n * w.shape.cols);
  for (uint8_t& code : codes) code = static_cast<uint8_t>(code - middle);
  return {DType::kI8, {w.shape.rows, w.shape.cols}, Buffer::copy_of(codes)};
}

TensorView pack_scale(const QuantWeight& w, const WeightScheme& scheme) {
  std::vector<int64_t> shape{w.num_group_rows(), w.num_group_cols()};
  if (scheme.group == Extent2d{}) shape = {1};
  return {dtype_of(w.scale.codec), std::move(shape), w.scale.data};
}

// [out, groups] -> words along the output.
TensorView pack_zero_words(const QuantWeight& w, const IntegerZeros& zeros) {
  const int64_t groups = w.num_group_cols(), rows = w.num_group_rows(), words = dense_words(rows, bits_of(w));
  std::vector<uint32_t> packed(static_cast<size_t>(words * groups));
  std::vector<uint8_t> column(static_cast<size_t>(rows));
  std::vector<uint32_t> stream(static_cast<size_t>(words));
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t n = 0; n < rows; ++n)
      column[static_cast<size_t>(n)] = zeros.data.as<uint8_t>()[static_cast<size_t>(n * groups + g)];
    stream.assign(stream.size(), 0);
    pack_codes(column.data(), bits_of(w), rows, reinterpret_cast<std::byte*>(stream.data()));
    for (int64_t word = 0; word < words; ++word)
      packed[static_cast<size_t>(word * groups + g)] = stream[static_cast<size_t>(word)];
  }
  return {DType::kI32, {words, groups}, Buffer::copy_of(packed)};
}

TensorView pack_zero_elements(const QuantWeight& w, const IntegerZeros& zeros) {
  const int middle = 1 << (bits_of(w) - 1);
  std::vector<int8_t> stored;
  for (uint8_t zero : zeros.data.as<uint8_t>()) stored.push_back(static_cast<int8_t>(zero - middle));
  return {DType::kI8, {w.num_group_rows(), w.num_group_cols()}, Buffer::copy_of(stored)};
}

TensorView number(float value) { return {DType::kF32, {1}, Buffer::copy_of(std::vector<float>{value})}; }

TensorView pack_divisor(const Scales& super) {
  return number(super.divisor != 0.0f ? super.divisor : 1.0f / super.data.as<float>()[0]);
}

// In bf16 where the weight's scales are and nothing is lost.
TensorView pack_input_scale(const QuantWeight& w) {
  const uint16_t narrow = float_to_bf16(w.activation.static_scale);
  if (w.scale.codec != ScaleCodec::kBF16 || bf16_to_float(narrow) != w.activation.static_scale)
    return number(w.activation.static_scale);
  return {DType::kBF16, {1}, Buffer::copy_of(std::vector<uint16_t>{narrow})};
}

void pack_activation(const QuantWeight& w, const std::function<void(const char*, TensorView)>& add) {
  const ActivationQuant& activation = w.activation;
  if (activation.mode == ActivationQuant::Mode::kStatic) {
    add("input_scale", pack_input_scale(w));
    if (!activation.sym)
      add("input_zero_point",
          {DType::kI8,
           {1},
           Buffer::copy_of(std::vector<int8_t>{static_cast<int8_t>(activation.static_zero)})});
  }
  if (activation.mode == ActivationQuant::Mode::kDynamic && activation.scale == ScaleCodec::kE4M3FN)
    add("input_global_scale",
        number(activation.super_divisor != 0.0f ? activation.super_divisor : 1.0f / activation.super_scale));
}

void pack_integers(const QuantWeight& w, const std::function<void(const char*, TensorView)>& add) {
  add("weight_packed", pack_words(w));
  add("weight_shape", {DType::kI64, {2}, Buffer::copy_of(std::vector<int64_t>{w.shape.rows, w.shape.cols})});
  if (!w.permutation.empty())
    add("weight_g_idx", {DType::kI32, {w.shape.cols}, Buffer::copy_of(group_index_of(w))});
}

}  // namespace

std::vector<NamedTensor> pack_scaled_layer(const QuantWeight& w, std::string_view layer,
                                           const WeightScheme& scheme) {
  const bool as_words = scheme.storage == CodeStorage::kWords && is_integer(w);
  validate(w, cat("layer '", layer, "'"));
  require_packable(w, layer, as_words);
  std::vector<NamedTensor> tensors;
  const auto add = [&](const char* suffix, TensorView view) {
    tensors.push_back({cat(layer, ".", suffix), std::move(view)});
  };
  if (as_words) {
    pack_integers(w, add);
  } else if (is_integer(w)) {
    add("weight", pack_signed(w));
  } else if (w.element == Element::kE2M1) {
    add("weight_packed", {DType::kU8, {w.shape.rows, w.row_bytes()}, w.codes});
  } else {
    add("weight", {dtype_of(w.element), {w.shape.rows, w.shape.cols}, w.codes});
  }
  add("weight_scale", pack_scale(w, scheme));
  if (const auto* zeros = std::get_if<IntegerZeros>(&w.offset))
    add("weight_zero_point", as_words ? pack_zero_words(w, *zeros) : pack_zero_elements(w, *zeros));
  if (w.scale.super) add("weight_global_scale", pack_divisor(*w.scale.super));
  pack_activation(w, add);
  return tensors;
}

}  // namespace quaver
