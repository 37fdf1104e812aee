#include "quantize/round_to_nearest.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "quantize/aten_threads.h"
#include "quantize/rtn.h"
#include "quantize/tunable_weight.h"

namespace quaver::quantize {
namespace {

constexpr int64_t kSliceElements = int64_t{1} << 18;

// Rows that are rounded together, by one thread. Integers look whether all values are bfloat16s, which a
// slice of others might be by chance.
int64_t rows_of_slice(const at::Tensor& weight, const Scheme& scheme) {
  const bool all_alike = scheme.data_type != DataType::kInt || weight.scalar_type() == at::kBFloat16;
  if (scheme.group_size == 0 || !all_alike) return weight.size(0);
  const int64_t tile = std::max<int64_t>(1, weight.size(1)) * scheme.group_rows;
  return std::max<int64_t>(1, kSliceElements / tile) * scheme.group_rows;
}

QuantWeight integers_of_slice(const at::Tensor& rows, int64_t first, const Scheme& scheme,
                              std::string_view what) {
  const at::Tensor values = rows.to(at::kCPU, at::kFloat).contiguous();
  RoundingProblem problem = integer_problem(rows.size(0), rows.size(1), scheme);
  problem.what = what;
  problem.first_row = first;
  return rtn({values.const_data_ptr<float>(), static_cast<size_t>(values.numel())}, problem);
}

QuantWeight floats_of_slice(const at::Tensor& rows, const Scheme& scheme, float shared_amax,
                            std::string_view what) {
  require(std::isfinite(largest_magnitude(rows)), ErrorKind::kNonFinite, what,
          ": holds a value that is not finite");
  const bool known = rows.scalar_type() == at::kFloat || rows.scalar_type() == at::kBFloat16;
  return make_tunable(known ? rows.contiguous() : rows.to(at::kFloat).contiguous(), scheme, shared_amax)
      ->quantized();
}

template <class Of>
Buffer joined(const std::vector<QuantWeight>& parts, const Of& of) {
  size_t size_bytes = 0;
  for (const QuantWeight& part : parts) size_bytes += of(part).size_bytes();
  std::byte* at = nullptr;
  Buffer whole = Buffer::allocate(size_bytes, at);
  for (const QuantWeight& part : parts) at = std::ranges::copy(of(part).bytes(), at).out;
  return whole;
}

// Slices of rows, all but the last of whole tiles, as the weight that they were cut from.
QuantWeight joined(std::vector<QuantWeight> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  Buffer codes = joined(parts, [](const QuantWeight& part) -> const Buffer& { return part.codes; });
  Buffer scales = joined(parts, [](const QuantWeight& part) -> const Buffer& { return part.scale.data; });
  int64_t rows = 0;
  for (const QuantWeight& part : parts) rows += part.shape.rows;
  if (std::holds_alternative<IntegerZeros>(parts.front().offset)) {
    auto zeros_of = [](const QuantWeight& part) -> const Buffer& {
      return std::get<IntegerZeros>(part.offset).data;
    };
    parts.front().offset = IntegerZeros{joined(parts, zeros_of)};
  }
  QuantWeight whole = std::move(parts.front());
  whole.shape.rows = rows;
  whole.codes = std::move(codes);
  whole.scale.data = std::move(scales);
  return whole;
}

}  // namespace

RoundingProblem integer_problem(int64_t out, int64_t in, const Scheme& scheme) {
  return {.out = out,
          .in = in,
          .bits = scheme.bits,
          .group = scheme.group_size,
          .sym = scheme.sym,
          .zero_from_one = scheme.zero_from_one,
          .pool = &global_thread_pool()};
}

float largest_magnitude(const at::Tensor& weight) {
  const float high = weight.max().item<float>(), low = weight.min().item<float>();
  return std::isnan(high) ? high : std::max(high, -low);
}

QuantWeight round_to_nearest(const at::Tensor& weight, const Scheme& scheme, float shared_amax,
                             std::string_view what) {
  if (scheme.data_type == DataType::kNvFp && !(shared_amax > 0)) shared_amax = largest_magnitude(weight);
  const int64_t out = weight.size(0), step = rows_of_slice(weight, scheme), slices = (out + step - 1) / step;
  std::vector<QuantWeight> parts(static_cast<size_t>(slices));
  auto round_slice = [&](int64_t slice) {
    const int64_t first = slice * step;
    const at::Tensor rows = weight.narrow(0, first, std::min(step, out - first));
    parts[static_cast<size_t>(slice)] = scheme.data_type == DataType::kInt
                                            ? integers_of_slice(rows, first, scheme, what)
                                            : floats_of_slice(rows, scheme, shared_amax, what);
  };
  auto round_slices = [&](int64_t begin, int64_t end) {
    AtenThreads one(1);
    for (int64_t slice = begin; slice < end; ++slice) round_slice(slice);
  };
  if (slices == 1)
    round_slice(0);
  else
    global_thread_pool().parallel_for(slices, 1, round_slices);
  return joined(std::move(parts));
}

}  // namespace quaver::quantize
