// The numbers behind /metrics: the pipeline's counters, and histograms gathered from its observations.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "pipeline/pipeline.h"

namespace quaver::server {

// Thread safe through the owner.
class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}
  void observe(double seconds);
  // Prometheus text: buckets, sum and count; `labels` without braces.
  void print(std::string& out, std::string_view name, std::string_view labels) const;

 private:
  std::span<const double> bounds_;  // of static storage
  std::vector<int64_t> counts_;
  double sum_ = 0;
  int64_t total_ = 0;
};

// Thread safe.
class Metrics {
 public:
  Metrics();
  // Takes over the pipeline's observations; called now and then so that they do not pile up.
  void collect(pipeline::Pipeline& pipeline);
  void count_response(int status);
  // Seconds in each stage of one picture request, and the steps that it asked for in all.
  void observe_pictures(const std::map<std::string, double>& stage_s, int64_t steps);
  // The whole page, after a collect.
  std::string page(pipeline::Pipeline* pipeline, const std::string& model_name);

 private:
  void take(pipeline::Stats stats);
  std::mutex mutex_;
  pipeline::Stats last_;  // without its observations
  Histogram first_token_, inter_token_, whole_;
  Histogram preprocess_, exec_, exec_per_step_, postprocess_;  // of pictures
  std::map<int, int64_t> responses_;
};

}  // namespace quaver::server
