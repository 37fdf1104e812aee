// The canonical form of an integer layer, turned into packed words, zero points and scales.
#include <cstring>

#include "formats/bitstream.h"
#include "formats/group_index.h"
#include "formats/packed_layer.h"
#include "formats/packed_order.h"

namespace quaver {
namespace {

int bits_of(const QuantWeight& weight) { return element_info(weight.element).bits; }

void require_packable(const QuantWeight& w, std::string_view layer, const PackedConvention& convention) {
  const bool along_in = convention.layout == PackedLayout::kWordsAlongIn;
  require(element_info(w.element).integer && w.group.rows == 1 && !w.scale.super, ErrorKind::kInvalidInput,
          "layer '", layer, "': only integers with one scale per group of a row can be packed");
  require(w.scale.codec == ScaleCodec::kF16 || w.scale.codec == ScaleCodec::kBF16 ||
              w.scale.codec == ScaleCodec::kF32,
          ErrorKind::kInvalidInput, "layer '", layer, "': scales must be f16, bf16 or f32");
  require(!std::holds_alternative<RealMins>(w.offset), ErrorKind::kInvalidInput, "layer '", layer,
          "': real minima can't be packed, only integer zero points");
  require(w.permutation.empty() || convention.has_group_index, ErrorKind::kInvalidInput, "layer '", layer,
          "': this packing has no place for an activation order");
  require(along_in || bits_of(w) == 4, ErrorKind::kInvalidInput, "layer '", layer,
          "': this packing holds 4 bits, got ", bits_of(w));
  require(w.shape.rows * bits_of(w) % 32 == 0 && (!along_in || w.shape.cols * bits_of(w) % 32 == 0),
          ErrorKind::kInvalidInput, "layer '", layer, "': [", w.shape.rows, ", ", w.shape.cols, "] at ",
          bits_of(w), " bits does not fill whole words; keep it at 16 bits");
}

// Zero points as they are stored, [groups, out] with one byte each.
std::vector<uint8_t> zeros_to_store(const QuantWeight& w, std::string_view layer, int offset) {
  const int64_t groups = w.num_group_cols();
  const int middle = 1 << (bits_of(w) - 1);
  const auto* zeros = std::get_if<IntegerZeros>(&w.offset);
  std::vector<uint8_t> stored(static_cast<size_t>(groups * w.shape.rows));
  for (int64_t n = 0; n < w.shape.rows; ++n)
    for (int64_t g = 0; g < groups; ++g) {
      const int zero = zeros ? zeros->data.as<uint8_t>()[static_cast<size_t>(n * groups + g)] : middle;
      require(zero >= offset, ErrorKind::kInvalidInput, "layer '", layer, "': zero point 0 of row ", n,
              ", group ", g, " can't be stored by a format that subtracts one; zero points must be in [1, ",
              2 * middle - 1, "]");
      stored[static_cast<size_t>(g * w.shape.rows + n)] = static_cast<uint8_t>(zero - offset);
    }
  return stored;
}

void interleave(std::vector<uint8_t>& columns) {
  for (size_t first = 0; first + 8 <= columns.size(); first += 8) {
    uint8_t natural[8];
    std::memcpy(natural, columns.data() + first, 8);
    for (size_t slot = 0; slot < 8; ++slot) columns[first + slot] = natural[kInterleave[slot]];
  }
}

NamedTensor words(std::string_view layer, const char* part, std::vector<int64_t> shape, Buffer data) {
  return {cat(layer, ".", part), {DType::kI32, std::move(shape), std::move(data)}};
}

NamedTensor pack_zeros(const QuantWeight& w, std::string_view layer, const PackedConvention& convention) {
  const int64_t groups = w.num_group_cols(), row_words = w.shape.rows * bits_of(w) / 32;
  const std::vector<uint8_t> stored = zeros_to_store(w, layer, convention.zero_offset);
  std::byte* target = nullptr;
  Buffer data = Buffer::allocate(static_cast<size_t>(groups * row_words * 4), target);
  for (int64_t g = 0; g < groups; ++g) {
    std::vector<uint8_t> row(stored.begin() + g * w.shape.rows, stored.begin() + (g + 1) * w.shape.rows);
    if (convention.layout == PackedLayout::kInterleavedAlongOut) interleave(row);
    pack_codes(row.data(), bits_of(w), w.shape.rows, target + g * row_words * 4);
  }
  return words(layer, "qzeros", {groups, row_words}, std::move(data));
}

NamedTensor pack_along_in(const QuantWeight& w, std::string_view layer) {
  const int64_t row_words = w.shape.cols * bits_of(w) / 32, rows = w.shape.rows;
  std::byte* target = nullptr;
  Buffer data = Buffer::allocate(static_cast<size_t>(row_words * rows * 4), target);
  const std::byte* codes = w.codes.bytes().data();
  for (int64_t word = 0; word < row_words; ++word)
    for (int64_t n = 0; n < rows; ++n)
      std::memcpy(target + (word * rows + n) * 4, codes + n * w.row_bytes() + word * 4, 4);
  return words(layer, "qweight", {row_words, rows}, std::move(data));
}

NamedTensor pack_along_out(const QuantWeight& w, std::string_view layer) {
  const int64_t row_words = w.shape.rows * bits_of(w) / 32;
  std::byte* target = nullptr;
  Buffer data = Buffer::allocate(static_cast<size_t>(w.shape.cols * row_words * 4), target);
  std::vector<uint8_t> column(static_cast<size_t>(w.shape.rows));
  for (int64_t k = 0; k < w.shape.cols; ++k) {
    for (int64_t n = 0; n < w.shape.rows; ++n)
      column[static_cast<size_t>(n)] =
          static_cast<uint8_t>(read_code(w.codes.bytes().data() + n * w.row_bytes(), k, bits_of(w)));
    interleave(column);
    pack_codes(column.data(), bits_of(w), w.shape.rows, target + k * row_words * 4);
  }
  return words(layer, "qweight", {w.shape.cols, row_words}, std::move(data));
}

NamedTensor pack_scales(const QuantWeight& w, std::string_view layer) {
  const DType type = w.scale.codec == ScaleCodec::kF16    ? DType::kF16
                     : w.scale.codec == ScaleCodec::kBF16 ? DType::kBF16
                                                          : DType::kF32;
  const auto size = static_cast<size_t>(dtype_info(type).block_bytes);
  const int64_t groups = w.num_group_cols();
  std::byte* target = nullptr;
  Buffer data = Buffer::allocate(w.scale.data.size_bytes(), target);
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t n = 0; n < w.shape.rows; ++n, target += size)
      std::memcpy(target, w.scale.data.bytes().data() + static_cast<size_t>(n * groups + g) * size, size);
  return {cat(layer, ".scales"), {type, {groups, w.shape.rows}, std::move(data)}};
}

}  // namespace

std::vector<NamedTensor> pack_packed_layer(const QuantWeight& weight, std::string_view layer,
                                           const PackedConvention& convention) {
  validate(weight, cat("layer '", layer, "'"));
  require_packable(weight, layer, convention);
  const bool along_in = convention.layout == PackedLayout::kWordsAlongIn;
  std::vector<NamedTensor> tensors;
  tensors.push_back(along_in ? pack_along_in(weight, layer) : pack_along_out(weight, layer));
  tensors.push_back(pack_zeros(weight, layer, convention));
  tensors.push_back(pack_scales(weight, layer));
  if (convention.has_group_index)
    tensors.push_back(words(layer, "g_idx", {weight.shape.cols}, Buffer::copy_of(group_index_of(weight))));
  return tensors;
}

}  // namespace quaver
