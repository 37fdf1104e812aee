#include "quantize/rounding.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "formats/bitstream.h"
#include "numerics/half.h"

namespace quaver::quantize {
namespace {

void check_problem(std::span<const float> weight, const RoundingProblem& p) {
  require(p.bits >= 2 && p.bits <= 8, ErrorKind::kInvalidInput, p.what, ": ", p.bits,
          " bits; integers have 2 to 8");
  require(p.group == -1 || p.group > 0, ErrorKind::kInvalidInput, p.what, ": group size ", p.group,
          "; expected -1 or a positive number");
  require(p.out > 0 && p.in > 0 && p.out <= INT32_MAX && p.in <= INT32_MAX &&
              weight.size() == static_cast<size_t>(p.out) * static_cast<size_t>(p.in),
          ErrorKind::kInvalidInput, p.what, ": ", weight.size(), " values are no matrix [", p.out, ", ", p.in,
          "]");
}

void require_finite(std::span<const float> values, const RoundingProblem& p, int64_t row, int64_t column) {
  for (size_t k = 0; k < values.size(); ++k)
    require(std::isfinite(values[k]), ErrorKind::kNonFinite, p.what, ": the value at row ", p.first_row + row,
            ", column ", column + static_cast<int64_t>(k), " is not finite");
}

// One weight that is filled row by row.
struct CodeStore {
  const RoundingProblem& problem;
  std::vector<uint8_t> zeros;    // [out, groups]
  std::vector<uint16_t> scales;  // [out, groups]
  QuantWeight weight;
  std::byte* packed = nullptr;

  explicit CodeStore(const RoundingProblem& p) : problem(p) {
    const auto count = static_cast<size_t>(p.out * p.groups());
    zeros.resize(count);
    scales.resize(count);
    weight.element = integer_element(p.bits);
    weight.shape = {p.out, p.in};
    weight.group = {1, p.group_columns()};
    weight.codes = Buffer::allocate(static_cast<size_t>(p.out * weight.row_bytes()), packed);
  }

  void store_grid(size_t at, const GroupGrid& grid, int64_t row) {
    scales[at] = float_to_f16(grid.scale);
    zeros[at] = static_cast<uint8_t>(grid.zero);
    require(std::isfinite(f16_to_float(scales[at])), ErrorKind::kNonFinite, problem.what, ": the scale ",
            grid.scale, " of row ", problem.first_row + row, " does not fit half precision");
  }

  QuantWeight take() && {
    weight.scale = {.codec = ScaleCodec::kF16, .data = Buffer::copy_of(scales)};
    if (!problem.sym) weight.offset = IntegerZeros{Buffer::copy_of(zeros)};
    return std::move(weight);
  }
};

void round_values(std::span<const float> values, const GroupGrid& grid, int bits, uint8_t* codes) {
  const float zero = static_cast<float>(grid.zero), largest = static_cast<float>((1 << bits) - 1);
  for (size_t k = 0; k < values.size(); ++k) {
    float steps = std::clamp(values[k] / grid.scale, -1024.0f, 1024.0f);
    if (grid.bf16_division) steps = round_to_bf16(steps);
    codes[k] = static_cast<uint8_t>(std::clamp(round_to_int(steps) + zero, 0.0f, largest));
  }
}

}  // namespace

QuantWeight round_groups(std::span<const float> weight, const RoundingProblem& problem,
                         const std::function<GroupGrid(int64_t, int64_t, std::span<const float>)>& choose) {
  check_problem(weight, problem);
  CodeStore store(problem);
  const auto rows = [&](int64_t first, int64_t last) {
    std::vector<uint8_t> codes(static_cast<size_t>(problem.in));
    for (int64_t row = first; row < last; ++row) {
      for (int64_t group = 0; group < problem.groups(); ++group) {
        const int64_t begin = group * problem.group_columns();
        const int64_t count = std::min(problem.group_columns(), problem.in - begin);
        const auto values =
            weight.subspan(static_cast<size_t>(row * problem.in + begin), static_cast<size_t>(count));
        require_finite(values, problem, row, begin);
        const GroupGrid grid = choose(row, group, values);
        store.store_grid(static_cast<size_t>(row * problem.groups() + group), grid, row);
        round_values(values, grid, problem.bits, codes.data() + begin);
      }
      pack_codes(codes.data(), problem.bits, problem.in, store.packed + row * store.weight.row_bytes());
    }
  };
  if (problem.pool)
    problem.pool->parallel_for(problem.out, 1, rows);
  else
    rows(0, problem.out);
  return std::move(store).take();
}

bool is_bf16(std::span<const float> weight) {
  return std::all_of(weight.begin(), weight.end(),
                     [](float value) { return (std::bit_cast<uint32_t>(value) & 0xffffu) == 0; });
}

}  // namespace quaver::quantize
