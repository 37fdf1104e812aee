// The demo model draws what diffusers draws: components, final latents and pictures; alone and in a batch.
#include "diffusion/image_pipeline.h"

#include <ATen/TensorOperators.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/env.h"
#include "checkpoint/safetensors_file.h"
#include "diffusion/image_job.h"
#include "nn/tensor_bridge.h"

namespace quaver::diffusion {
namespace {

using ::testing::HasSubstr;

const std::string kModels = std::string(QUAVER_TEST_DATA) + "/../models/";

class Reference {
 public:
  Reference() : file_(SafetensorsFile::open(path())) {
    facts_ = parse_json(file_.metadata().at("facts"), path());
  }
  at::Tensor tensor(int prompt, const std::string& name) const {
    return nn::tensor_over(file_.read(cat(prompt, ".", name)), name).clone();
  }
  const json& facts() const { return facts_; }
  ImageSpec spec(int prompt) const {
    ImageSpec spec{.prompt = facts_.at("prompts").at(static_cast<size_t>(prompt)),
                   .width = facts_.at("size")[1],
                   .height = facts_.at("size")[0],
                   .steps = facts_.at("steps"),
                   .text_tokens = facts_.at("max_sequence_length")};
    spec.guidance.embedded = facts_.at("guidance");
    spec.noise = tensor(prompt, "latents_initial");
    return spec;
  }

 private:
  static std::string path() {
    return env_string("QUAVER_TEST_REFERENCE").value_or(kModels + "reference/shapes-flux.safetensors");
  }
  SafetensorsFile file_;
  json facts_;
};

std::unique_ptr<ImagePipeline> shapes(ImagePipelineOptions options = {}) {
  return ImagePipeline::load(DiffusersFolder::open(kModels + "shapes-flux"), options);
}

double relative_l2(const at::Tensor& got, const at::Tensor& want) {
  return ((got - want).norm() / want.norm()).item<double>();
}

double psnr(const Image& got, const at::Tensor& want) {  // [3, H, W] in 0..1
  const at::Tensor pixels = (want * 255).round().permute({1, 2, 0}).flatten();
  double sum = 0;
  for (int64_t i = 0; i < pixels.numel(); ++i)
    sum += std::pow(pixels.const_data_ptr<float>()[i] - got.rgb[static_cast<size_t>(i)], 2);
  return 10 * std::log10(255.0 * 255.0 * static_cast<double>(pixels.numel()) / std::max(sum, 1e-9));
}

Image drawn(ImageJob& job, size_t index = 0) {
  while (job.steps_done() < job.steps()) job.step();
  return job.decode(index);
}

class ShapesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { pipeline_ = shapes().release(); }
  static void TearDownTestSuite() { delete pipeline_; }
  ImageSpec small(uint64_t seed, const std::string& prompt = "a red circle on a white background") {
    ImageSpec spec{.prompt = prompt, .width = 64, .height = 64, .steps = 4, .text_tokens = 64, .seed = seed};
    spec.guidance.embedded = 3.5;
    return spec;
  }
  Image alone(const ImageSpec& spec) {
    ImageJob job(*pipeline_, {spec});
    return drawn(job);
  }
  // Of a job whose mask is white from column `first` on, as a grid of tokens.
  at::Tensor masked_latents(ImageSpec spec, int first) {
    GrayImage mask{.width = 64, .height = 64, .gray = std::vector<uint8_t>(64 * 64)};
    for (int i = 0; i < 64 * 64; ++i) mask.gray[static_cast<size_t>(i)] = i % 64 >= first ? 255 : 0;
    spec.mask = std::make_shared<GrayImage>(mask);
    ImageJob job(*pipeline_, {spec});
    drawn(job);
    return job.latents()[0].unflatten(0, {4, 4});
  }
  static ImagePipeline* pipeline_;
};
ImagePipeline* ShapesTest::pipeline_ = nullptr;

TEST_F(ShapesTest, ComponentsEqualDiffusers) {
  const Reference reference;
  c10::InferenceMode no_gradients;
  for (int n = 0; n < 3; ++n) {
    const ImageSpec spec = reference.spec(n);
    const PromptRows rows = pipeline_->prompts().encode(spec.prompt, spec.text_tokens);
    EXPECT_LE(relative_l2(rows.pooled, reference.tensor(n, "clip_pooled")), 1e-5);
    EXPECT_LE(relative_l2(rows.text, reference.tensor(n, "t5_hidden")), 1e-5);
    const Schedule schedule = pipeline_->schedule(spec);
    const at::Tensor sigmas = reference.tensor(n, "sigmas");
    for (size_t i = 0; i < schedule.sigmas.size(); ++i)
      EXPECT_NEAR(schedule.sigmas[i], sigmas[static_cast<int64_t>(i)].item<double>(), 5 * 0x1p-24);
  }
}

TEST_F(ShapesTest, LatentsAndPicturesEqualDiffusers) {
  const Reference reference;
  for (int n = 0; n < 3; ++n) {
    ImageJob job(*pipeline_, {reference.spec(n)});
    const Image image = drawn(job);
    EXPECT_LE(relative_l2(job.latents(), reference.tensor(n, "latents_final")), 1e-3);
    EXPECT_GE(psnr(image, reference.tensor(n, "image")), 45);
    RecordProperty(cat("relative_l2_", n),
                   cat(relative_l2(job.latents(), reference.tensor(n, "latents_final"))));
    RecordProperty(cat("psnr_", n), cat(psnr(image, reference.tensor(n, "image"))));
  }
}

TEST_F(ShapesTest, F118_APictureIsTheSameAloneAndInABatch) {
  const std::vector<ImageSpec> specs = {small(7), small(8, "a blue star on a black background"), small(9)};
  ImageJob batch(*pipeline_, specs);
  for (size_t i = 0; i < specs.size(); ++i) EXPECT_EQ(drawn(batch, i), alone(specs[i])) << i;
  EXPECT_NE(alone(specs[0]), alone(specs[2]));
}

TEST_F(ShapesTest, TrueGuidanceRunsASecondBranch) {
  ImageSpec spec = small(3);
  const Image plain = alone(spec);
  spec.negative_prompt = "a red circle on a white background";
  EXPECT_EQ(alone(spec), plain);  // without a scale it is ignored
  spec.guidance.scale = 4;
  EXPECT_EQ(alone(spec), plain);  // away from itself: nowhere
  spec.negative_prompt = "a blue star on a black background";
  EXPECT_NE(alone(spec), plain);
}

TEST_F(ShapesTest, StartsFromAPictureAndKeepsWhatTheMaskKeeps) {
  const Image source = alone(small(1, "a large green square on a white background"));
  ImageSpec spec = small(2, "a blue circle on a black background");
  spec.source = std::make_shared<Image>(source);
  spec.strength = 0.25;
  ImageJob job(*pipeline_, {spec});
  EXPECT_EQ(job.steps(), 1);
  spec.strength = 1;
  const at::Tensor kept = masked_latents(spec, 64), redone = masked_latents(spec, 32);  // [4, 4, 64]
  EXPECT_TRUE(redone.narrow(1, 0, 2).equal(kept.narrow(1, 0, 2)));
  EXPECT_GT(relative_l2(redone.narrow(1, 2, 2), kept.narrow(1, 2, 2)), 0.5);
}

TEST_F(ShapesTest, PreviewsShowTheWay) {
  ImageJob job(*pipeline_, {small(5)});
  job.step();
  const Image rough = job.preview(0, 32);
  EXPECT_EQ(rough.width, 32);
  EXPECT_EQ(rough.height, 32);
  EXPECT_EQ(job.preview(0, 1000).width, 64);
}

TEST_F(ShapesTest, SaysWhatWasCutOff) {
  std::string longer = "a red circle";
  for (int i = 0; i < 100; ++i) longer += " and a red circle";
  ImageJob job(*pipeline_, {small(1, longer), small(2)});
  ASSERT_EQ(job.notes(0).size(), 2u);
  EXPECT_TRUE(job.notes(1).empty());  // another picture's prompt is none of its business
  EXPECT_THAT(job.notes(0)[0], HasSubstr("text_encoder takes 77 tokens"));
  EXPECT_THAT(job.notes(0)[1], HasSubstr("text_encoder_2 takes 64 tokens"));
}

TEST_F(ShapesTest, DefaultsAreTheFamilys) {
  EXPECT_EQ(pipeline_->facts().defaults.guidance_scale, 3.5);
  EXPECT_EQ(pipeline_->facts().default_width, 128);
  EXPECT_EQ(pipeline_->guidance({}, {}, false).embedded, 3.5);
  EXPECT_EQ(pipeline_->guidance(2.0, 4.0, false).scale, 1);
  EXPECT_EQ(pipeline_->guidance(2.0, 4.0, true).scale, 4);
}

TEST_F(ShapesTest, StepCachesSkipStepsAndStayClose) {
  ImageSpec spec = small(4);
  spec.steps = 20;
  ImageJob whole(*pipeline_, {spec});
  drawn(whole);
  for (const char* kind : {"first-block:0.2", "teacache:0.6"}) {
    ImagePipelineOptions options;
    options.cache = parse_step_cache(kind);
    const std::unique_ptr<ImagePipeline> cached = shapes(options);
    ImageJob job(*cached, {spec});
    drawn(job);
    EXPECT_GE(job.steps_skipped(), 2) << kind;
    EXPECT_LT(job.steps_skipped(), 18) << kind;
    EXPECT_LE(relative_l2(job.latents(), whole.latents()), 0.3) << kind;
    RecordProperty(kind, cat(job.steps_skipped(), " skipped, ", relative_l2(job.latents(), whole.latents())));
  }
}

TEST(StepCacheTest, RefusesOtherWords) {
  for (const char* text :
       {"first", "first-block:", "first-block:x", "teacache:0", "teacache:1.5", "none:0.1"})
    EXPECT_THROW(parse_step_cache(text), Error) << text;
  EXPECT_EQ(parse_step_cache("teacache:0.3").threshold, 0.3);
  EXPECT_EQ(parse_step_cache("none").kind, StepCacheSettings::Kind::kNone);
}

}  // namespace
}  // namespace quaver::diffusion
