// Which adapters a request's picture is made with, and what else a request may say of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "pipeline/image_check.h"

namespace quaver::pipeline {
namespace {

using ::testing::HasSubstr;

const std::string kTestData = QUAVER_TEST_DATA;

class ImageAdapterTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto adapter = [](const char* name, double scale, bool always) {
      return diffusion::Adapter{.name = name,
                                .path = cat(kTestData, "/golden/lora/shapes-", name, ".safetensors"),
                                .scale = scale,
                                .always = always};
    };
    diffusion::ImagePipelineOptions options;
    options.adapters = {adapter("style", 0.5, true), adapter("form", 1, false)};
    model_ =
        diffusion::ImagePipeline::load(DiffusersFolder::open(kTestData + "/../models/shapes-flux"), options)
            .release();
  }
  static void TearDownTestSuite() { delete model_; }

  static std::vector<double> scales(std::optional<AdapterChoice> choice) {
    const ImageRequest request{.id = "a", .prompt = "a red circle", .adapter = std::move(choice)};
    return check_image_request(request, *model_, {}).front().adapter_scales;
  }
  static std::string refusal(const AdapterChoice& choice) {
    try {
      scales(choice);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
      EXPECT_EQ(error.field(), "lora");
      return error.what();
    }
    return "nothing was thrown";
  }
  static diffusion::ImagePipeline* model_;
};
diffusion::ImagePipeline* ImageAdapterTest::model_ = nullptr;

using Scales = std::vector<double>;

TEST_F(ImageAdapterTest, AChoiceTakesThePlaceOfThoseThatAlwaysRun) {
  EXPECT_EQ(scales({}), (Scales{0.5, 0}));
  EXPECT_EQ(scales(AdapterChoice{.name = "form"}), (Scales{0, 1}));
  EXPECT_EQ(scales(AdapterChoice{.name = "form", .scale = -2}), (Scales{0, -2}));
  EXPECT_EQ(scales(AdapterChoice{.name = "style"}), (Scales{0.5, 0}));
  EXPECT_EQ(scales(AdapterChoice{.name = "any", .path = model_->facts().adapters[1].path}), (Scales{0, 1}));
}

TEST_F(ImageAdapterTest, ScaleZeroIsNone) {
  EXPECT_EQ(scales(AdapterChoice{.name = "form", .scale = 0}), Scales{});
}

TEST_F(ImageAdapterTest, OthersAreRefusedByTheField) {
  EXPECT_THAT(refusal({.name = "glow"}), HasSubstr("names 'glow', expected one of: style, form"));
  EXPECT_THAT(refusal({.name = "style", .path = "/etc/passwd"}),
              HasSubstr("adapters are loaded with the model alone"));
  EXPECT_THAT(refusal({.name = "style", .scale = 101}), HasSubstr("is 101, expected -100 to 100"));
  EXPECT_THAT(refusal({.name = "style", .scale = NAN}), HasSubstr("is nan"));
}

}  // namespace
}  // namespace quaver::pipeline
