// Codes and scales in tensors of their own, turned into the canonical form; what fits is shared, not copied.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/log.h"
#include "formats/bitstream.h"
#include "formats/group_index.h"
#include "formats/scaled_parts.h"
#include "numerics/e4m3fn.h"
#include "numerics/half.h"

namespace quaver {
namespace {

// What one unpacking needs at hand.
struct Job {
  const Checkpoint& checkpoint;
  const WeightScheme& scheme;
  const ScaledParts& parts;
  QuantWeight& weight;

  TensorView read(Part part) const { return checkpoint.read(parts[part]->name); }
  int bits() const { return element_info(weight.element).bits; }
  size_t row_bytes() const { return static_cast<size_t>(weight.row_bytes()); }
};

Element element_of(const WeightScheme& scheme, DType stored) {
  if (stored == DType::kF8E5M2) return Element::kE5M2;
  if (stored == DType::kF8E4M3FNUZ) return Element::kE4M3FNUZ;
  return scheme.element;
}

ScaleCodec codec_of(DType stored, const WeightScheme& scheme) {
  if (scheme.scale) return *scheme.scale;
  if (stored == DType::kF16) return ScaleCodec::kF16;
  if (stored == DType::kBF16) return ScaleCodec::kBF16;
  return stored == DType::kF32 ? ScaleCodec::kF32 : ScaleCodec::kE8M0;
}

// Row-major rows of one-byte codes to bit streams.
Buffer pack_rows(const Job& job, const std::vector<uint8_t>& codes) {
  std::byte* target = nullptr;
  Buffer buffer = Buffer::allocate(static_cast<size_t>(job.weight.shape.rows) * job.row_bytes(), target);
  const int64_t cols = job.weight.shape.cols;
  for (int64_t n = 0; n < job.weight.shape.rows; ++n)
    pack_codes(codes.data() + n * cols, job.bits(), cols, target + static_cast<size_t>(n) * job.row_bytes());
  return buffer;
}

// Signed bytes to unsigned codes.
Buffer offset_codes(const Job& job, const TensorView& view) {
  const int middle = 1 << (job.bits() - 1);
  std::vector<uint8_t> codes(view.data.size_bytes());
  for (size_t i = 0; i < codes.size(); ++i) {
    const int value = view.data.as<int8_t>()[i];
    if (value < -middle || value >= middle)
      fail(ErrorKind::kBadFile, job.parts.where(Part::kCodes), " holds ", value, " at element ", i,
           ", which ", job.bits(), " bits can't be");
    codes[i] = static_cast<uint8_t>(value + middle);
  }
  return pack_rows(job, codes);
}

// 8-bit floats that a file widened to bf16.
Buffer narrowed_codes(const Job& job, const TensorView& view) {
  std::vector<uint8_t> codes(view.data.size_bytes() / 2);
  for (size_t i = 0; i < codes.size(); ++i) {
    uint16_t stored = 0;
    std::memcpy(&stored, view.data.bytes().data() + i * 2, 2);
    const float value = bf16_to_float(stored);
    codes[i] = float_to_e4m3fn(value);
    if (e4m3fn_to_float(codes[i]) != value)
      fail(ErrorKind::kBadFile, job.parts.where(Part::kCodes), " holds ", value, " at element ", i,
           ", which is no e4m3fn value");
  }
  return Buffer::copy_of(codes);
}

// Sign and magnitude to unsigned codes around 8; -0 becomes 0.
Buffer recentred_nibbles(const Job& job, const TensorView& view) {
  std::vector<uint8_t> codes(view.data.size_bytes() * 2);
  unpack_codes(view.data.bytes().data(), 4, static_cast<int64_t>(codes.size()), codes.data());
  for (uint8_t& code : codes) {
    const int magnitude = code & 7;
    code = static_cast<uint8_t>(code & 8 ? 8 - magnitude : 8 + magnitude);
  }
  return pack_rows(job, codes);
}

// `count` codes of a row of words, whichever way they are packed.
std::vector<uint8_t> codes_of_words(const std::byte* words, int64_t num_words, int64_t count, int bits) {
  std::vector<uint8_t> codes(static_cast<size_t>(count));
  if (num_words == dense_words(count, bits)) {
    unpack_codes(words, bits, count, codes.data());
    return codes;
  }
  const int64_t per_word = 32 / bits;
  for (int64_t first = 0; first < count; first += per_word)
    unpack_codes(words + first / per_word * 4, bits, std::min(per_word, count - first), codes.data() + first);
  return codes;
}

Buffer codes_from_words(const Job& job, const TensorView& view) {
  const int64_t num_words = view.shape[1], cols = job.weight.shape.cols;
  if (num_words * 32 == cols * job.bits()) return view.data;
  std::vector<uint8_t> codes;
  for (int64_t n = 0; n < job.weight.shape.rows; ++n) {
    const auto row =
        codes_of_words(view.data.bytes().data() + n * num_words * 4, num_words, cols, job.bits());
    codes.insert(codes.end(), row.begin(), row.end());
  }
  return pack_rows(job, codes);
}

Buffer read_codes(const Job& job) {
  const TensorView view = job.read(Part::kCodes);
  if (job.scheme.storage == CodeStorage::kWords) return codes_from_words(job, view);
  if (job.scheme.sign_magnitude) return recentred_nibbles(job, view);
  if (view.dtype == DType::kI8) return offset_codes(job, view);
  return view.dtype == DType::kBF16 ? narrowed_codes(job, view) : view.data;
}

// The only entry of a tensor, as a float.
float read_number(const Job& job, Part part) {
  const TensorView view = job.read(part);
  const std::string what = job.parts.where(part);
  require(view.dtype == DType::kF32 || view.dtype == DType::kF16 || view.dtype == DType::kBF16,
          ErrorKind::kBadFile, what, " has dtype ", dtype_info(view.dtype).name,
          ", expected f32, f16 or bf16");
  const size_t count = view.data.size_bytes() / static_cast<size_t>(dtype_info(view.dtype).block_bytes);
  require(count == 1, ErrorKind::kBadFile, what, " has ", count, " entries, expected 1");
  const float value = decode_scales({.codec = codec_of(view.dtype, {}), .data = view.data})[0];
  require(std::isfinite(value) && value > 0, ErrorKind::kBadFile, what, " holds ", value,
          ", expected a positive number");
  return value;
}

void read_scales(const Job& job) {
  const TensorView view = job.read(Part::kScale);
  job.weight.scale = {.codec = codec_of(view.dtype, job.scheme), .data = view.data};
  if (job.scheme.sign_magnitude)
    job.weight.scale.super =
        std::make_unique<Scales>(Scales{.data = Buffer::copy_of(std::vector<float>{0.25f})});
  if (!job.scheme.has_divisor) return;
  const float divisor = read_number(job, Part::kDivisor);
  job.weight.scale.super = std::make_unique<Scales>(
      Scales{.data = Buffer::copy_of(std::vector<float>{1.0f / divisor}), .divisor = divisor});
}

// Words of zero points run along the output: [words, groups] -> [out, groups].
std::vector<uint8_t> zeros_from_words(const Job& job, const TensorView& view) {
  const int64_t groups = job.weight.num_group_cols(), rows = job.weight.num_group_rows();
  const int64_t num_words = static_cast<int64_t>(view.data.size_bytes()) / 4 / groups;
  std::vector<uint8_t> zeros(static_cast<size_t>(rows * groups));
  std::vector<std::byte> column(static_cast<size_t>(num_words * 4));
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t word = 0; word < num_words; ++word)
      std::memcpy(column.data() + word * 4, view.data.bytes().data() + (word * groups + g) * 4, 4);
    const auto codes = codes_of_words(column.data(), num_words, rows, job.bits());
    for (int64_t n = 0; n < rows; ++n)
      zeros[static_cast<size_t>(n * groups + g)] = codes[static_cast<size_t>(n)];
  }
  return zeros;
}

std::vector<uint8_t> zeros_from_elements(const Job& job, const TensorView& view) {
  const int middle = 1 << (job.bits() - 1);
  std::vector<uint8_t> zeros(view.data.size_bytes());
  for (size_t i = 0; i < zeros.size(); ++i) {
    const int zero = view.data.as<int8_t>()[i] + middle;
    if (zero < 0 || zero >= 2 * middle)
      fail(ErrorKind::kBadFile, job.parts.where(Part::kZeroPoint), " holds ", zero - middle, " at element ",
           i, ", which ", job.bits(), " bits can't be");
    zeros[i] = static_cast<uint8_t>(zero);
  }
  return zeros;
}

void read_zero_points(const Job& job) {
  if (!job.parts[Part::kZeroPoint]) return;
  const TensorView view = job.read(Part::kZeroPoint);
  std::vector<uint8_t> zeros = job.scheme.storage == CodeStorage::kWords ? zeros_from_words(job, view)
                                                                         : zeros_from_elements(job, view);
  if (!job.scheme.sym) {
    job.weight.offset = IntegerZeros{Buffer::copy_of(zeros)};
    return;
  }
  const int middle = 1 << (job.bits() - 1);
  if (std::any_of(zeros.begin(), zeros.end(), [&](uint8_t zero) { return zero != middle; }))
    fail(ErrorKind::kBadFile, job.parts.where(Part::kZeroPoint),
         " holds zero points other than 0, but the quantization settings say symmetric");
}

int read_input_zero(const Job& job) {
  const TensorView view = job.read(Part::kInputZeroPoint);
  require(view.dtype == DType::kI8 && view.data.size_bytes() == 1, ErrorKind::kBadFile,
          job.parts.where(Part::kInputZeroPoint), " has dtype ", dtype_info(view.dtype).name, " and shape ",
          view.shape, ", expected i8 [1]");
  const int zero = view.data.as<int8_t>()[0];
  require(!job.scheme.activation.sym || zero == 0, ErrorKind::kBadFile,
          job.parts.where(Part::kInputZeroPoint), " holds ", zero,
          ", but the quantization settings say symmetric");
  return zero;
}

void read_activation(const Job& job) {
  ActivationQuant& activation = job.weight.activation;
  activation = job.scheme.activation;
  if (job.weight.element == Element::kE4M3FNUZ && activation.element == Element::kE4M3FN)
    activation.element = Element::kE4M3FNUZ;  // hardware that has the one lacks the other
  if (job.parts[Part::kInputScale]) activation.static_scale = read_number(job, Part::kInputScale);
  if (job.parts[Part::kInputZeroPoint]) activation.static_zero = read_input_zero(job);
  if (!job.parts[Part::kInputDivisor]) return;
  activation.super_divisor = read_number(job, Part::kInputDivisor);
  activation.super_scale = 1.0f / activation.super_divisor;
}

void check_shape(const LayerPlan& plan, const ScaledParts& parts, Extent2d stored) {
  require(plan.shape == Extent2d{} || plan.shape == stored, ErrorKind::kBadFile, parts.where(Part::kCodes),
          " holds [", stored.rows, ", ", stored.cols, "], expected [", plan.shape.rows, ", ", plan.shape.cols,
          "]");
}

}  // namespace

QuantWeight unpack_scaled_layer(const LayerPlan& plan, const Checkpoint& checkpoint) {
  const WeightScheme scheme = scheme_from_json(plan.scheme);
  const ScaledParts parts(checkpoint, plan);
  QuantWeight weight;
  weight.element = element_of(scheme, parts[Part::kCodes]->dtype);
  weight.shape = parts.shape(scheme.storage, element_info(weight.element).bits);
  check_shape(plan, parts, weight.shape);
  weight.group = ScaledParts::group_of(scheme, weight.shape);
  const Job job{checkpoint, scheme, parts, weight};
  weight.codes = read_codes(job);
  read_scales(job);
  read_zero_points(job);
  read_activation(job);
  if (parts[Part::kGroupIndex])
    weight.permutation = read_group_index(checkpoint, parts[Part::kGroupIndex]->name, weight, false);
  validate(weight, parts.layer_where());
  return weight;
}

}  // namespace quaver
