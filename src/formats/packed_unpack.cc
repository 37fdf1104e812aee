// Packed words, zero points and scales of an integer layer, turned into the canonical form.
#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "formats/bitstream.h"
#include "formats/group_index.h"
#include "formats/packed_layer.h"
#include "formats/packed_order.h"

namespace quaver {
namespace {

struct Source {
  TensorView qweight, qzeros, scales;
  int bits = 4;
  int64_t in = 0, out = 0, groups = 0;  // as stored, padding included
  std::string what;                     // "model.safetensors: layer 'x'"
};

Source read_source(const LayerPlan& plan, const Checkpoint& checkpoint) {
  Source source{checkpoint.read(plan.tensors.at(0)), checkpoint.read(plan.tensors.at(1)),
                checkpoint.read(plan.tensors.at(2))};
  source.what = cat(checkpoint.file_of(plan.tensors[0]), ": layer '", plan.layer, "'");
  source.bits = plan.scheme.at("bits");
  const bool along_in = plan.scheme.at("along_in");
  source.groups = source.scales.shape.at(0);
  source.out = source.scales.shape.at(1);
  source.in = along_in ? source.qweight.shape.at(0) * 32 / source.bits : source.qweight.shape.at(0);
  return source;
}

// The logical shape: what the model expects, if the stored one is that or that with its last group filled up.
Extent2d logical_shape(const Source& source, const LayerPlan& plan) {
  if (plan.shape == Extent2d{}) return {source.out, source.in};
  const int64_t group = plan.scheme.at("group_size");
  const int64_t filled = group > 0 ? (plan.shape.cols + group - 1) / group * group : plan.shape.cols;
  require(plan.shape.rows == source.out && (plan.shape.cols == source.in || filled == source.in),
          ErrorKind::kBadFile, source.what, " holds [", source.out, ", ", source.in, "] packed, expected [",
          plan.shape.rows, ", ", plan.shape.cols, "]");
  return plan.shape;
}

// Words along the input are a little-endian bit stream per output row, read down a column: a transposition.
void transpose_words(const Source& source, int64_t row_bytes, std::byte* codes) {
  constexpr int64_t kTile = 16;
  const int64_t words = (row_bytes + 3) / 4;
  const std::byte* stored = source.qweight.data.bytes().data();
  for (int64_t tile = 0; tile < source.out; tile += kTile) {
    for (int64_t word = 0; word < words; ++word) {
      const auto bytes = static_cast<size_t>(std::min<int64_t>(4, row_bytes - word * 4));
      for (int64_t n = tile; n < std::min(tile + kTile, source.out); ++n)
        std::memcpy(codes + n * row_bytes + word * 4, stored + (word * source.out + n) * 4, bytes);
    }
  }
}

// Clears what padding left behind the last code of each row.
void clear_row_tails(const Extent2d& shape, int bits, int64_t row_bytes, std::byte* codes) {
  const int used = static_cast<int>(shape.cols * bits % 8);
  if (used == 0) return;
  for (int64_t n = 0; n < shape.rows; ++n)
    codes[n * row_bytes + row_bytes - 1] &= std::byte((1u << used) - 1);
}

// The slots of eight neighbouring columns, where codes lie along the output.
const int* slot_order(const LayerPlan& plan) {
  static constexpr int kNatural[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  return plan.scheme.value("interleaved", true) ? kInterleave : kNatural;
}

// Codes stored in two's complement become unsigned.
void flip_signs(const Extent2d& shape, int64_t row_bytes, std::byte* codes) {
  for (int64_t i = 0; i < shape.rows * row_bytes; ++i) codes[i] ^= std::byte{0x88};
  clear_row_tails(shape, 4, row_bytes, codes);
}

// Words along the output: eight columns at a time, since the interleaving stays within eight.
void gather_columns(const Source& source, const int* order, const Extent2d& shape, int64_t row_bytes,
                    std::byte* codes) {
  const int64_t stored_row_bytes = source.qweight.shape[1] * 4;
  const std::byte* stored = source.qweight.data.bytes().data();
  std::vector<uint8_t> columns(static_cast<size_t>(8 * shape.cols));
  for (int64_t first = 0; first < shape.rows; first += 8) {
    for (int64_t k = 0; k < shape.cols; ++k)
      for (int64_t slot = 0; slot < 8; ++slot)
        columns[static_cast<size_t>(order[slot] * shape.cols + k)] =
            static_cast<uint8_t>(read_code(stored + k * stored_row_bytes, first + slot, source.bits));
    for (int64_t n = 0; n < 8; ++n)
      pack_codes(columns.data() + n * shape.cols, source.bits, shape.cols, codes + (first + n) * row_bytes);
  }
}

// Stored [groups, out] -> [out, groups].
Buffer transpose_scales(const Source& source) {
  const auto size = static_cast<size_t>(dtype_info(source.scales.dtype).block_bytes);
  const std::byte* stored = source.scales.data.bytes().data();
  std::byte* target = nullptr;
  Buffer buffer = Buffer::allocate(static_cast<size_t>(source.out * source.groups) * size, target);
  for (int64_t n = 0; n < source.out; ++n)
    for (int64_t g = 0; g < source.groups; ++g, target += size)
      std::memcpy(target, stored + static_cast<size_t>(g * source.out + n) * size, size);
  return buffer;
}

// Zero points as stored, before any offset, [out, groups].
std::vector<uint8_t> stored_zeros(const Source& source, const LayerPlan& plan) {
  const bool along_in = plan.scheme.at("along_in");
  const int* order = slot_order(plan);
  const int64_t row_bytes = source.qzeros.shape[1] * 4;
  const std::byte* stored = source.qzeros.data.bytes().data();
  std::vector<uint8_t> zeros(static_cast<size_t>(source.out * source.groups));
  for (int64_t g = 0; g < source.groups; ++g)
    for (int64_t slot = 0; slot < source.out; ++slot) {
      const int64_t n = along_in ? slot : slot / 8 * 8 + order[slot % 8];
      zeros[static_cast<size_t>(n * source.groups + g)] =
          static_cast<uint8_t>(read_code(stored + g * row_bytes, slot, source.bits));
    }
  return zeros;
}

bool all_equal(const std::vector<uint8_t>& values, int wanted) {
  return std::all_of(values.begin(), values.end(), [&](uint8_t v) { return v == wanted; });
}

// A symmetric layer has its zero point in the middle by definition. Files exist whose label and stored value
// are one apart; both spellings of the middle are taken, and any other value is an error.
void check_symmetric_zeros(const std::vector<uint8_t>& zeros, const Source& source, const LayerPlan& plan) {
  const int middle = 1 << (source.bits - 1);
  const int stored = middle - plan.scheme.at("zero_offset").get<int>();
  if (all_equal(zeros, stored)) return;
  const bool along_in = plan.scheme.at("along_in");
  const bool mislabelled = along_in && (all_equal(zeros, middle) || all_equal(zeros, middle - 1));
  require(mislabelled, ErrorKind::kBadFile, source.what, ": the quantization settings say symmetric, but '",
          plan.tensors[1], "' holds zero points other than ", stored);
  log_warning(source.what, " stores its symmetric zero points by the other convention (",
              static_cast<int>(zeros[0]), " for ", stored, "); taking them as the middle");
}

std::variant<std::monostate, IntegerZeros, RealMins> read_offset(const Source& source,
                                                                 const LayerPlan& plan) {
  std::vector<uint8_t> zeros = stored_zeros(source, plan);
  if (plan.scheme.at("sym").get<bool>()) {
    check_symmetric_zeros(zeros, source, plan);
    return std::monostate{};
  }
  // A zero point of 0 wraps to the largest code where one is subtracted before storing; no quantizer makes
  // 2^bits.
  const int offset = plan.scheme.at("zero_offset");
  const int mask = (1 << source.bits) - 1;
  for (uint8_t& zero : zeros) zero = static_cast<uint8_t>((zero + offset) & mask);
  return IntegerZeros{Buffer::copy_of(zeros)};
}

ScaleCodec codec_of(DType type) {
  if (type == DType::kF16) return ScaleCodec::kF16;
  return type == DType::kBF16 ? ScaleCodec::kBF16 : ScaleCodec::kF32;
}

}  // namespace

QuantWeight unpack_packed_layer(const LayerPlan& plan, const Checkpoint& checkpoint) {
  const Source source = read_source(plan, checkpoint);
  const bool along_in = plan.scheme.at("along_in");
  QuantWeight weight;
  weight.element = integer_element(source.bits);
  weight.shape = logical_shape(source, plan);
  const int64_t group = plan.scheme.at("group_size");
  weight.group = {1, group == -1 ? weight.shape.cols : std::min(group, weight.shape.cols)};
  const int64_t row_bytes = weight.row_bytes();
  std::byte* codes = nullptr;
  weight.codes = Buffer::allocate(static_cast<size_t>(weight.shape.rows * row_bytes), codes);
  if (along_in) {
    transpose_words(source, row_bytes, codes);
    clear_row_tails(weight.shape, source.bits, row_bytes, codes);
  } else {
    gather_columns(source, slot_order(plan), weight.shape, row_bytes, codes);
  }
  if (plan.scheme.value("signed", false)) flip_signs(weight.shape, row_bytes, codes);
  weight.scale = {.codec = codec_of(source.scales.dtype), .data = transpose_scales(source)};
  weight.offset = read_offset(source, plan);
  if (plan.tensors.size() > 3)
    weight.permutation =
        read_group_index(checkpoint, plan.tensors[3], weight, plan.scheme.at("activation_order"));
  validate(weight, source.what);
  return weight;
}

}  // namespace quaver
