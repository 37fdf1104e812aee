#include "quantize/tunable_weight.h"

#include "base/error.h"
#include "formats/bitstream.h"
#include "quantize/float_tunable.h"
#include "quantize/integer_tunable.h"

namespace quaver::quantize {

std::unique_ptr<TunableWeight> make_tunable(at::Tensor weight, const Scheme& scheme, float shared_amax) {
  require(weight.scalar_type() == at::kFloat || weight.scalar_type() == at::kBFloat16, ErrorKind::kInternal,
          "weights are tuned in float32 or bfloat16");
  if (scheme.data_type == DataType::kInt) return std::make_unique<IntegerTunable>(std::move(weight), scheme);
  return std::make_unique<FloatTunable>(std::move(weight), scheme, shared_amax);
}

Extent2d tile_of(const at::Tensor& weight, const Scheme& scheme) {
  int64_t out = weight.size(0), in = weight.size(1);
  if (scheme.group_size == 0) return {out, in};
  return {std::min(scheme.group_rows, out), scheme.group_size < 0 ? in : std::min(scheme.group_size, in)};
}

Buffer packed_codes(const at::Tensor& codes, int bits) {
  at::Tensor on_host = codes.to(at::kCPU).contiguous();
  int64_t rows = codes.size(0), cols = codes.size(1), row_bytes = bitstream_bytes(cols, bits);
  std::byte* packed = nullptr;
  Buffer buffer = Buffer::allocate(static_cast<size_t>(rows * row_bytes), packed);
  const uint8_t* source = on_host.const_data_ptr<uint8_t>();
  for (int64_t row = 0; row < rows; ++row)
    pack_codes(source + row * cols, bits, cols, packed + row * row_bytes);
  return buffer;
}

}  // namespace quaver::quantize
