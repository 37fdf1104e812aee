#include "eval/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace quaver::eval {

namespace {

struct ClusterSum {
  double sum = 0;
  int64_t count = 0;
};

std::vector<ClusterSum> units_to_draw(const std::vector<std::vector<double>>& clusters) {
  std::vector<ClusterSum> units;
  const std::vector<double>* last = nullptr;
  for (const std::vector<double>& cluster : clusters) {
    if (cluster.empty()) continue;
    last = &cluster;
    units.push_back(
        {std::accumulate(cluster.begin(), cluster.end(), 0.0), static_cast<int64_t>(cluster.size())});
  }
  if (units.size() != 1) return units;
  units.clear();
  for (const double value : *last) units.push_back({value, 1});
  return units;
}

double percentile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - std::floor(at));
}

MeanEstimate::Interval interval_of(const std::vector<ClusterSum>& units) {
  constexpr int kDraws = 10'000;
  std::mt19937_64 random(0);
  std::vector<double> means(kDraws);
  for (double& mean : means) {
    ClusterSum drawn;
    for (size_t i = 0; i < units.size(); ++i) {
      const ClusterSum& unit = units[(random() >> 32) * units.size() >> 32];  // the same on every system
      drawn.sum += unit.sum;
      drawn.count += unit.count;
    }
    mean = drawn.sum / static_cast<double>(drawn.count);
  }
  std::ranges::sort(means);
  return {percentile(means, 0.025), percentile(means, 0.975)};
}

}  // namespace

MeanEstimate bootstrap_mean(const std::vector<std::vector<double>>& clusters) {
  const std::vector<ClusterSum> units = units_to_draw(clusters);
  MeanEstimate out;
  for (const ClusterSum& unit : units) {
    out.mean += unit.sum;
    out.count += unit.count;
  }
  out.mean /= static_cast<double>(out.count);
  if (units.size() > 1) out.interval = interval_of(units);
  return out;
}

}  // namespace quaver::eval
