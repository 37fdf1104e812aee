#include "eval/image_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace quaver::eval {

namespace {

constexpr int kWindow = 11;

void require_same_size(const Image& reference, const Image& candidate) {
  require(reference.width == candidate.width && reference.height == candidate.height,
          ErrorKind::kInvalidInput, "pictures to compare must have one size, got ", reference.width, "x",
          reference.height, " and ", candidate.width, "x", candidate.height);
}

std::array<double, kWindow> gaussian_window() {
  constexpr double kDeviation = 1.5;
  std::array<double, kWindow> weights;
  double sum = 0;
  for (int i = 0; i < kWindow; ++i) {
    const double x = (i - kWindow / 2) / kDeviation;
    sum += weights[static_cast<size_t>(i)] = std::exp(-0.5 * x * x);
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

struct Plane {
  int width = 0, height = 0;
  std::vector<double> values;  // [height, width]
  double& at(int x, int y) {
    return values[static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)];
  }
  double at(int x, int y) const { return const_cast<Plane*>(this)->at(x, y); }
};

Plane plane(int width, int height) {
  return {width, height, std::vector<double>(static_cast<size_t>(width) * static_cast<size_t>(height))};
}

// Weighted means over every window that lies inside.
Plane windowed(const Plane& in) {
  static const std::array<double, kWindow> weights = gaussian_window();
  Plane rows = plane(in.width - kWindow + 1, in.height);
  for (int y = 0; y < rows.height; ++y)
    for (int x = 0; x < rows.width; ++x)
      for (int i = 0; i < kWindow; ++i) rows.at(x, y) += weights[static_cast<size_t>(i)] * in.at(x + i, y);
  Plane out = plane(rows.width, in.height - kWindow + 1);
  for (int y = 0; y < out.height; ++y)
    for (int i = 0; i < kWindow; ++i)
      for (int x = 0; x < out.width; ++x) out.at(x, y) += weights[static_cast<size_t>(i)] * rows.at(x, y + i);
  return out;
}

// One colour of each picture, or the product of two.
Plane products(const Image& a, const Image* b, size_t colour) {
  Plane out = plane(a.width, a.height);
  for (size_t i = 0; i < out.values.size(); ++i)
    out.values[i] = double(a.rgb[3 * i + colour]) * (b != nullptr ? double(b->rgb[3 * i + colour]) : 1);
  return out;
}

double similarity_of_colour(const Image& a, const Image& b, size_t colour) {
  constexpr double kC1 = (0.01 * kPixelPeak) * (0.01 * kPixelPeak),
                   kC2 = (0.03 * kPixelPeak) * (0.03 * kPixelPeak);
  const Plane mean_a = windowed(products(a, nullptr, colour)),
              mean_b = windowed(products(b, nullptr, colour));
  const Plane aa = windowed(products(a, &a, colour)), bb = windowed(products(b, &b, colour)),
              ab = windowed(products(a, &b, colour));
  double sum = 0;
  for (size_t i = 0; i < aa.values.size(); ++i) {
    const double ma = mean_a.values[i], mb = mean_b.values[i];
    const double variances = aa.values[i] - ma * ma + bb.values[i] - mb * mb;
    const double covariance = ab.values[i] - ma * mb;
    sum += (2 * ma * mb + kC1) * (2 * covariance + kC2) / ((ma * ma + mb * mb + kC1) * (variances + kC2));
  }
  return sum / static_cast<double>(aa.values.size());
}

}  // namespace

DifferenceSums pixel_sums(const Image& reference, const Image& candidate) {
  require_same_size(reference, candidate);
  DifferenceSums sums;
  for (size_t i = 0; i < reference.rgb.size(); ++i) sums.add(reference.rgb[i], candidate.rgb[i]);
  return sums;
}

double structural_similarity(const Image& reference, const Image& candidate) {
  require_same_size(reference, candidate);
  require(std::min(reference.width, reference.height) >= kWindow, ErrorKind::kInvalidInput,
          "structural similarity needs pictures of at least ", kWindow, "x", kWindow, ", got ",
          reference.width, "x", reference.height);
  double sum = 0;
  for (size_t colour = 0; colour < 3; ++colour) sum += similarity_of_colour(reference, candidate, colour);
  return sum / 3;
}

Image difference_picture(const Image& reference, const Image& candidate, double gain) {
  require_same_size(reference, candidate);
  Image out{.width = reference.width, .height = reference.height, .rgb = reference.rgb};
  for (size_t i = 0; i < out.rgb.size(); ++i) {
    const double value = 128 + gain * (double(candidate.rgb[i]) - double(reference.rgb[i]));
    out.rgb[i] = static_cast<uint8_t>(std::clamp(std::round(value), 0.0, 255.0));
  }
  return out;
}

}  // namespace quaver::eval
