// Means over pictures and limits for each of them, where some have no number.
#include "eval/image_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace quaver::eval {
namespace {

using ::testing::HasSubstr;

PictureComparison picture(const std::string& prompt, double psnr_db, double relative_l2) {
  PictureComparison out{.prompt = prompt, .seed = 5};
  out.pixels.psnr_db = psnr_db;
  out.pixels.relative_l2 = relative_l2;
  out.steps = {{}};
  return out;
}

const PictureMetric* metric(const std::string& flag) {
  for (const PictureMetric& row : picture_metrics())
    if (row.flag == flag) return &row;
  return nullptr;
}

TEST(ImageComparisonTest, IdenticalPicturesMeetEveryLimitAndHaveNoMeanPsnr) {
  const std::vector<PictureComparison> pictures = {picture("a", INFINITY, 0), picture("b", 20, 0.5),
                                                   picture("b", 30, 0.1)};
  EXPECT_EQ(mean_of(*metric("min-psnr"), pictures).mean, 25);
  EXPECT_EQ(mean_of(*metric("min-psnr"), pictures).count, 2);
  EXPECT_EQ(mean_of(*metric("max-relative-l2"), pictures).count, 3);
  EXPECT_EQ(mean_of(*metric("min-psnr"), {pictures[0]}).count, 0);
  const LimitResult met = check_limits({{metric("min-psnr"), 20}}, pictures).front();
  EXPECT_EQ(met.failed, 0);
  EXPECT_THAT(sentence_of(met, pictures),
              HasSubstr("--min-psnr 20 is met by all of 3 pictures; the worst, 20, is of 'b' with seed 5"));
}

TEST(ImageComparisonTest, UpperLimitsAndMissingNumbersFail) {
  const std::vector<PictureComparison> pictures = {picture("a", 20, 0.1), picture("b", NAN, 0.5)};
  const std::vector<LimitResult> results =
      check_limits({{metric("max-relative-l2"), 0.4}, {metric("min-psnr"), 10}}, pictures);
  EXPECT_EQ(results[0].failed, 1);
  EXPECT_EQ(results[0].worst, 1);
  EXPECT_EQ(results[1].failed, 1);
  EXPECT_THAT(sentence_of(results[1], pictures), HasSubstr("the worst, nan, is of 'b'"));
}

TEST(ImageComparisonTest, FlagsSayTheirDirection) {
  for (const PictureMetric& row : picture_metrics()) {
    const std::string flag = row.flag;
    EXPECT_TRUE(flag.starts_with("min-") || flag.starts_with("max-")) << flag;
    EXPECT_EQ(row.is_lower_limit(), flag.starts_with("min-")) << flag;
  }
}

}  // namespace
}  // namespace quaver::eval
