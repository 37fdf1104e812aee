#include "quantize/importance.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "quantize/float_sum.h"

namespace quaver::quantize {
namespace {

constexpr float kPadding = 1e-5f;  // importance of columns that only fill up the last group
constexpr float kNothing = 1e-30f;

// Rounds towards minus infinity, which decides for whole rows (-1): there any zero at all is too many.
int64_t half_of(int64_t group) { return group == -1 ? -1 : group / 2; }

}  // namespace

ImportanceTable::ImportanceTable(std::span<const float> importance, const RoundingProblem& problem, bool bf16)
    : columns_(problem.group_columns()),
      zero_limit_(half_of(problem.group)),
      bits_(problem.bits),
      bf16_(bf16) {
  if (importance.empty()) return;
  require(static_cast<int64_t>(importance.size()) == problem.in, ErrorKind::kInvalidInput, problem.what, ": ",
          importance.size(), " importance values for ", problem.in, " input channels");
  for (const float value : importance)
    require(std::isfinite(value) && value >= 0, ErrorKind::kNonFinite, problem.what, ": an importance of ",
            value, " is not a finite sum of squares");
  values_.assign(importance.begin(), importance.end());
  values_.resize(static_cast<size_t>(problem.groups() * columns_), kPadding);
  any_zero_ = std::find(values_.begin(), values_.end(), 0.0f) != values_.end();
  for (int64_t group = 0; group < problem.groups(); ++group) {
    const auto first = values_.begin() + group * columns_;
    zero_count_.push_back(std::count_if(first, first + columns_, [](float v) { return v <= kNothing; }));
    any_sparse_ |= zero_count_.back() > 0 && zero_count_.back() <= zero_limit_;
  }
}

bool ImportanceTable::mostly_zero(int64_t group) const {
  return zero_count_[static_cast<size_t>(group)] > zero_limit_;
}

// Root of the mean square over 32 values, whatever the group's length.
float ImportanceTable::magnitude_offset(std::span<const float> padded) const {
  if (bits_ <= 3) return 0.0f;
  if (!bf16_) {
    std::vector<float> squares(padded.size());
    for (size_t i = 0; i < padded.size(); ++i) squares[i] = padded[i] * padded[i];
    return std::sqrt(cascaded_sum(squares.data(), squares.size()) / 32.0f);
  }
  double sum = 0;
  for (const float value : padded) sum += round_to_bf16(value * value);
  return round_to_bf16(std::sqrt(round_to_bf16(static_cast<float>(sum)) / 32.0f));
}

void ImportanceTable::fill(int64_t group, std::span<const float> padded, std::span<float> target) const {
  const auto first = values_.begin() + group * columns_;
  std::copy(first, first + columns_, target.begin());
  if (!any_zero_) return;
  if (mostly_zero(group)) {
    const float offset = magnitude_offset(padded);
    for (size_t i = 0; i < padded.size(); ++i) {
      const float magnitude = std::abs(padded[i]) + offset;
      target[i] = bf16_ ? round_to_bf16(magnitude) : magnitude;
    }
  }
  if (!any_sparse_) return;
  const auto present = static_cast<float>(columns_ - zero_count_[static_cast<size_t>(group)]);
  const float mean = cascaded_sum(target.data(), target.size()) / present;
  std::replace(target.begin(), target.end(), 0.0f, mean);
}

}  // namespace quaver::quantize
