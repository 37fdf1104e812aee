// Metrics of pictures and latents, and intervals, equal scikit-image's, NumPy's and SciPy's.
#include "eval/image_metrics.h"

#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/mapped_file.h"
#include "eval/bootstrap.h"
#include "eval/trajectory_metrics.h"
#include "media/decode.h"

namespace quaver::eval {
namespace {

const std::string kGolden = std::string(QUAVER_TEST_DATA) + "/golden/eval/";

json golden() { return read_json_file(kGolden + "image_metrics.json"); }

Image picture(const std::string& name) {
  return decode_image(MappedFile::open(kGolden + name + ".png")->bytes(), name);
}

// Sums of n doubles in two orders: |reference| x epsilon x sqrt(n), with room for the last divisions.
void expect_equal(const json& got, const json& want, double count) {
  for (const auto& [key, value] : want.items()) {
    if (value.is_null() || got.at(key).is_null()) {
      EXPECT_EQ(got.at(key), value) << key;
      continue;
    }
    const double expected = value;
    EXPECT_NEAR(got.at(key).get<double>(), expected, std::abs(expected) * 0x1p-50 * std::sqrt(count)) << key;
  }
}

TEST(ImageMetricsTest, EqualScikitImage) {
  const json facts = golden();
  for (const json& row : facts.at("pictures")) {
    SCOPED_TRACE(row.at("name"));
    const std::string name = row.at("name");
    const Image a = picture(name + "_reference"), b = picture(name + "_candidate");
    json got = to_json(pixel_sums(a, b).difference(kPixelPeak));
    got["ssim"] = structural_similarity(a, b);
    // Variances are differences of squares of up to 255^2, which costs 16 bits where they are small.
    json want = row.at("expected");
    EXPECT_NEAR(got.at("ssim"), want.at("ssim"), 1e-9);
    want.erase("ssim");
    expect_equal(got, want, static_cast<double>(a.rgb.size()));
    EXPECT_EQ(got.at("identical"), name == "identical");
  }
}

TEST(ImageMetricsTest, PiecesAddUp) {
  const Image a = picture("noise_reference"), b = picture("noise_candidate"), c = picture("shift_candidate");
  DifferenceSums together = pixel_sums(a, b);
  together.add(pixel_sums(a, c));
  const Difference first = pixel_sums(a, b).difference(kPixelPeak),
                   second = pixel_sums(a, c).difference(kPixelPeak), both = together.difference(kPixelPeak);
  EXPECT_NEAR(both.mse, (first.mse + second.mse) / 2, both.mse * 1e-14);
  EXPECT_EQ(both.max_abs, std::max(first.max_abs, second.max_abs));
}

TEST(ImageMetricsTest, WhatHasNoNumberIsNull) {
  DifferenceSums sums;
  sums.add(0, 1);
  const json got = to_json(sums.difference(0));
  EXPECT_TRUE(got.at("cosine_similarity").is_null());
  EXPECT_TRUE(got.at("relative_l2").is_null());
  EXPECT_TRUE(got.at("psnr_db").is_null());
  EXPECT_EQ(got.at("l2"), 1);
}

TEST(ImageMetricsTest, SizesMustFit) {
  const Image wide = picture("wide_reference"), square = picture("noise_reference");
  EXPECT_THAT([&] { pixel_sums(wide, square); },
              testing::ThrowsMessage<Error>("pictures to compare must have one size, got 40x24 and 32x32"));
  Image small{.width = 10, .height = 11, .rgb = std::vector<uint8_t>(330)};
  EXPECT_THAT(
      [&] { structural_similarity(small, small); },
      testing::ThrowsMessage<Error>("structural similarity needs pictures of at least 11x11, got 10x11"));
}

TEST(ImageMetricsTest, DifferencesShowAroundGrey) {
  const Image a{.width = 1, .height = 1, .rgb = {10, 10, 200}},
      b{.width = 1, .height = 1, .rgb = {10, 13, 100}};
  EXPECT_EQ(difference_picture(a, b, 8).rgb, (std::vector<uint8_t>{128, 152, 0}));
}

TEST(TrajectoryMetricsTest, EqualNumPy) {
  const json facts = golden().at("trajectory");
  const std::vector<int64_t> shape = facts.at("shape");
  const at::Tensor a = at::tensor(facts.at("reference").get<std::vector<float>>()).view(shape);
  const at::Tensor b = at::tensor(facts.at("candidate").get<std::vector<float>>()).view(shape);
  for (int64_t step = 0; step < shape[0]; ++step)
    expect_equal(to_json(latent_difference(a[step], b[step])),
                 facts.at("steps").at(static_cast<size_t>(step)), static_cast<double>(a[step].numel()));
  EXPECT_THAT(
      [&] { latent_difference(a, b[0]); },
      testing::ThrowsMessage<Error>("latents to compare must have one shape, got [3, 5, 4] and [5, 4]"));
}

TEST(TrajectoryMetricsTest, StepsArePairedInTheirOrder) {
  TrajectoryPairs pairs(2);
  at::Tensor latents = at::tensor({1.f, 2.f});
  pairs.keep(1, latents);
  latents.add_(1);  // what was kept is a copy
  pairs.keep(1, latents);
  pairs.compare(1, at::tensor({1.f, 2.f}));
  pairs.compare(1, at::tensor({2.f, 5.f}));
  EXPECT_TRUE(pairs.differences()[0].empty());
  ASSERT_EQ(pairs.differences()[1].size(), 2);
  EXPECT_TRUE(pairs.differences()[1][0].identical);
  EXPECT_EQ(pairs.differences()[1][1].max_abs, 2);
  EXPECT_THAT([&] { pairs.compare(1, latents); },
              testing::ThrowsMessage<Error>("the candidate takes more steps than the reference's 2"));
}

TEST(BootstrapTest, IntervalsEqualScipys) {
  const json facts = golden();
  for (const json& row : facts.at("bootstrap")) {
    const MeanEstimate got = bootstrap_mean(row.at("clusters").get<std::vector<std::vector<double>>>());
    ASSERT_TRUE(got.interval);
    // A quantile q of n draws of a normal mean is off by sqrt(q (1 - q) / n) / density: 0.027 errors of the
    // mean for 10,000 draws; four times that.
    const double tolerance = 4 * 0.027 * row.at("error").get<double>();
    EXPECT_NEAR(got.interval->low, row.at("low"), tolerance);
    EXPECT_NEAR(got.interval->high, row.at("high"), tolerance);
  }
}

TEST(BootstrapTest, OneValueHasNoInterval) {
  const MeanEstimate got = bootstrap_mean({{}, {3.5}});
  EXPECT_EQ(got.mean, 3.5);
  EXPECT_EQ(got.count, 1);
  EXPECT_FALSE(got.interval);
}

}  // namespace
}  // namespace quaver::eval
