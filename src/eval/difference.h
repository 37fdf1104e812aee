// How far one list of numbers is from another: the metrics of pictures' pixels and of latents.
#pragma once

#include <cstdint>

#include "base/json.h"

namespace quaver::eval {

struct Difference {
  bool identical = false;
  double cosine_similarity = 1;  // NaN where one of the two is all zero and the other isn't
  double mae = 0, mse = 0, rmse = 0, max_abs = 0;
  double l2 = 0, relative_l2 = 0;  // relative to the reference's norm; infinite where that is 0
  double psnr_db = 0;              // infinite where both are identical
};

// Sums in double, so that pieces can be added up before anything is divided.
class DifferenceSums {
 public:
  void add(double reference, double candidate);
  void add(const DifferenceSums& other);
  // PSNR is 10 log10(peak^2 / mse). Precondition: something was added.
  Difference difference(double peak) const;

 private:
  int64_t count_ = 0;
  double dot_ = 0, reference_squares_ = 0, candidate_squares_ = 0, squares_ = 0, absolutes_ = 0, max_ = 0;
};

// Every number of it; null for those that are infinite or none, which JSON does not have.
json to_json(const Difference& difference);
json finite_or_null(double value);

}  // namespace quaver::eval
