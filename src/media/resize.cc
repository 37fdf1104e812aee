// Separable resampling in fixed point.
#include "media/resize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>
#include <utility>

#include "base/error.h"

namespace quaver {
namespace {

// 8 bits of sample, 22 of weight and 2 to spare, for weights whose magnitudes sum to more than 1 and the
// sign.
constexpr int kWeightBits = 22;

double sinc(double x) { return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x); }

double box(double x) { return x > -0.5 && x <= 0.5 ? 1 : 0; }
double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }
double lanczos(double x) { return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0; }
// Keys, "Cubic convolution interpolation for digital image processing" (1981), equation 15.
double cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0;
}

struct Filter {
  Resample name;
  double support;  // zero from here on, in source pixels at scale 1
  double (*weight)(double x);
};

constexpr Filter kFilters[] = {{Resample::kBox, 0.5, box},
                               {Resample::kBilinear, 1, triangle},
                               {Resample::kBicubic, 2, cubic},
                               {Resample::kLanczos, 3, lanczos}};

// Which source samples make each target sample along one side, and by what weights.
struct Taps {
  std::vector<int> first;        // [targets]
  std::vector<size_t> begin;     // [targets + 1], into weights
  std::vector<int32_t> weights;  // times 2^22; those of a target sum to about that

  std::span<const int32_t> of(size_t target) const {
    return std::span(weights).subspan(begin[target], begin[target + 1] - begin[target]);
  }
};

void append_weights(const Filter& filter, double center, double widening, int first, int end, Taps& taps) {
  std::vector<double> weights;
  double sum = 0;
  for (int i = first; i < end; ++i) {
    weights.push_back(filter.weight((i - center + 0.5) / widening));
    sum += weights.back();
  }
  for (const double weight : weights)
    taps.weights.push_back(static_cast<int32_t>(std::lround(weight / sum * (1 << kWeightBits))));
}

Taps make_taps(const Filter& filter, int sources, int targets) {
  const double scale = static_cast<double>(sources) / targets, widening = std::max(scale, 1.0),
               support = filter.support * widening;
  Taps taps;
  taps.begin.push_back(0);
  for (int t = 0; t < targets; ++t) {
    const double center = (t + 0.5) * scale;
    const int first = std::max(0, static_cast<int>(center - support + 0.5));
    const int end = std::min(sources, static_cast<int>(center + support + 0.5));
    taps.first.push_back(first);
    append_weights(filter, center, widening, first, end, taps);
    taps.begin.push_back(taps.weights.size());
  }
  return taps;
}

uint8_t rounded(int32_t sum) {
  return static_cast<uint8_t>(std::clamp((sum + (1 << (kWeightBits - 1))) >> kWeightBits, 0, 255));
}

// Samples with C channels in each pixel.
template <int C>
struct Plane {
  int width, height;
  std::span<const uint8_t> samples;  // [height, width, C]

  size_t row_size() const { return size_t(width) * C; }
  const uint8_t* row(int y) const { return samples.data() + size_t(y) * row_size(); }
};

template <int C>
std::vector<uint8_t> resample_columns(const Plane<C>& plane, const Taps& taps) {
  const size_t targets = taps.first.size();
  std::vector<uint8_t> out(size_t(plane.height) * targets * C);
  uint8_t* target = out.data();
  for (int y = 0; y < plane.height; ++y)
    for (size_t x = 0; x < targets; ++x, target += C) {
      const uint8_t* source = plane.row(y) + size_t(taps.first[x]) * C;
      int32_t sums[C] = {};
      for (const int32_t weight : taps.of(x))
        for (int c = 0; c < C; ++c) sums[c] += weight * *source++;
      for (int c = 0; c < C; ++c) target[c] = rounded(sums[c]);
    }
  return out;
}

template <int C>
std::vector<uint8_t> resample_rows(const Plane<C>& plane, const Taps& taps) {
  const size_t targets = taps.first.size(), row_size = plane.row_size();
  std::vector<uint8_t> out(targets * row_size);
  std::vector<int32_t> sums(row_size);
  for (size_t y = 0; y < targets; ++y) {
    std::fill(sums.begin(), sums.end(), 0);
    const uint8_t* source = plane.row(taps.first[y]);
    for (const int32_t weight : taps.of(y)) {
      for (size_t i = 0; i < row_size; ++i) sums[i] += weight * source[i];
      source += row_size;
    }
    std::transform(sums.begin(), sums.end(), out.data() + y * row_size, rounded);
  }
  return out;
}

// The source sample under the middle of each target sample. Summed up step by step, as Pillow does it: where
// the middle falls on a border between two samples, the rounding of the sum decides.
std::vector<int> nearest_sources(int sources, int targets) {
  const double scale = static_cast<double>(sources) / targets;
  std::vector<int> nearest;
  double middle = scale * 0.5;
  for (int t = 0; t < targets; ++t, middle += scale)
    nearest.push_back(std::min(static_cast<int>(middle), sources - 1));
  return nearest;
}

template <int C>
std::vector<uint8_t> take_nearest(const Plane<C>& plane, int width, int height) {
  const std::vector<int> columns = nearest_sources(plane.width, width);
  std::vector<uint8_t> out;
  out.reserve(size_t(width) * size_t(height) * C);
  for (const int y : nearest_sources(plane.height, height))
    for (const int x : columns) {
      const uint8_t* pixel = plane.row(y) + size_t(x) * C;
      out.insert(out.end(), pixel, pixel + C);
    }
  return out;
}

template <int C>
std::vector<uint8_t> resample(Plane<C> plane, int width, int height, const Filter& filter) {
  std::vector<uint8_t> narrowed, out;
  if (width != plane.width) {
    narrowed = resample_columns(plane, make_taps(filter, plane.width, width));
    plane = {width, plane.height, narrowed};
  }
  if (height == plane.height) return {plane.samples.begin(), plane.samples.end()};
  return resample_rows(plane, make_taps(filter, plane.height, height));
}

template <int C>
std::vector<uint8_t> resized(const Plane<C>& plane, int width, int height, Resample name) {
  require(width >= 1 && height >= 1, ErrorKind::kInvalidInput, "a picture can't be resized to ", width, " x ",
          height, " pixels");
  if (name == Resample::kNearest) return take_nearest(plane, width, height);
  const auto* filter = std::find_if(std::begin(kFilters), std::end(kFilters),
                                    [&](const Filter& row) { return row.name == name; });
  require(filter != std::end(kFilters), ErrorKind::kInvalidInput, "there is no resampling filter number ",
          static_cast<int>(name), ": expected 0 to 4");
  return resample(plane, width, height, *filter);
}

}  // namespace

Image resize(const Image& image, int width, int height, Resample filter) {
  return {width, height, resized<3>({image.width, image.height, image.rgb}, width, height, filter)};
}

GrayImage resize(const GrayImage& image, int width, int height, Resample filter) {
  return {width, height, resized<1>({image.width, image.height, image.gray}, width, height, filter)};
}

}  // namespace quaver
