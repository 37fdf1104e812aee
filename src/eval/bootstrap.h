// How sure a mean over pictures is, when the pictures of one prompt are more alike than those of two.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace quaver::eval {

struct MeanEstimate {
  double mean = 0;
  int64_t count = 0;
  // The percentile bootstrap's 95% interval; unset where there is nothing to draw from.
  struct Interval {
    double low = 0, high = 0;
  };
  std::optional<Interval> interval;
};

// Whole clusters are drawn with replacement, with all of their values; where only one has values, its values
// are. 10,000 draws from a fixed seed. Efron and Tibshirani, "An introduction to the bootstrap" (1993), 13.3;
// Field and Welsh, "Bootstrapping clustered data" (2007). Precondition: there is a value.
MeanEstimate bootstrap_mean(const std::vector<std::vector<double>>& clusters);

}  // namespace quaver::eval
