#include "eval/difference.h"

#include <algorithm>
#include <cmath>

namespace quaver::eval {

void DifferenceSums::add(double reference, double candidate) {
  const double difference = candidate - reference;
  ++count_;
  dot_ += reference * candidate;
  reference_squares_ += reference * reference;
  candidate_squares_ += candidate * candidate;
  squares_ += difference * difference;
  absolutes_ += std::abs(difference);
  max_ = std::max(max_, std::abs(difference));
}

void DifferenceSums::add(const DifferenceSums& other) {
  count_ += other.count_;
  dot_ += other.dot_;
  reference_squares_ += other.reference_squares_;
  candidate_squares_ += other.candidate_squares_;
  squares_ += other.squares_;
  absolutes_ += other.absolutes_;
  max_ = std::max(max_, other.max_);
}

Difference DifferenceSums::difference(double peak) const {
  Difference out{.identical = max_ == 0};
  out.max_abs = max_;
  out.mae = absolutes_ / static_cast<double>(count_);
  out.mse = squares_ / static_cast<double>(count_);
  out.rmse = std::sqrt(out.mse);
  out.l2 = std::sqrt(squares_);
  out.psnr_db = 10 * std::log10(peak * peak / out.mse);
  if (out.identical) return out;  // also where both are all zero
  out.cosine_similarity = dot_ / (std::sqrt(reference_squares_) * std::sqrt(candidate_squares_));
  out.relative_l2 = out.l2 / std::sqrt(reference_squares_);
  return out;
}

json finite_or_null(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

json to_json(const Difference& difference) {
  return {{"identical", difference.identical},
          {"cosine_similarity", finite_or_null(difference.cosine_similarity)},
          {"mae", difference.mae},
          {"mse", difference.mse},
          {"rmse", difference.rmse},
          {"max_abs", difference.max_abs},
          {"l2", difference.l2},
          {"relative_l2", finite_or_null(difference.relative_l2)},
          {"psnr_db", finite_or_null(difference.psnr_db)}};
}

}  // namespace quaver::eval
