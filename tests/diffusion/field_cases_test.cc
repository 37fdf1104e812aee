// A tiny Ovis-Image pipeline equals diffusers', and faults that people reported of picture pipelines.
#include <ATen/TensorOperators.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/mapped_file.h"
#include "base/remove_tree.h"
#include "checkpoint/safetensors_file.h"
#include "diffusion/image_job.h"
#include "diffusion/image_pipeline.h"
#include "nn/tensor_bridge.h"

namespace quaver::diffusion {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string kGoldens = std::string(QUAVER_TEST_DATA) + "/golden/diffusion/";
const std::string kShapesFolder = std::string(QUAVER_TEST_DATA) + "/../models/shapes-flux";

std::unique_ptr<ImagePipeline> opened(const fs::path& folder, const nn::LoadOptions& load = {}) {
  return ImagePipeline::load(DiffusersFolder::open(folder),
                             {.load = load, .vae_dtype = {}, .vae = {}, .cache = {}});
}

double apart(const at::Tensor& got, const at::Tensor& want) {
  return ((got - want).norm() / want.norm()).item<double>();
}

class OvisImageTest : public testing::Test {
 protected:
  at::Tensor golden(const std::string& name) const { return nn::tensor_over(file_.read(name), name).clone(); }
  ImageSpec spec() const {
    return {.prompt = "a cat under a blue moon",
            .negative_prompt = "blurry",
            .width = 64,
            .height = 64,
            .steps = 4,
            .text_tokens = 256,
            .guidance = {.scale = 5},
            .noise = golden("noise")};
  }
  at::Tensor latents_of(std::vector<ImageSpec> specs) const {
    ImageJob job(*pipeline_, std::move(specs));
    while (job.steps_done() < job.steps()) job.step();
    return job.latents();
  }
  SafetensorsFile file_ = SafetensorsFile::open(kGoldens + "ovis_pipeline.safetensors");
  std::unique_ptr<ImagePipeline> pipeline_ = opened(kGoldens + "ovis_pipeline");
  c10::InferenceMode no_gradients_;
};

TEST_F(OvisImageTest, PromptsLatentsAndPictureEqualDiffusers) {
  EXPECT_LE(apart(pipeline_->prompts().encode(spec().prompt, 256).text, golden("text")), 1e-5);
  EXPECT_LE(apart(pipeline_->prompts().encode("blurry", 256).text, golden("text_negative")), 1e-5);
  ImageJob job(*pipeline_, {spec()});
  while (job.steps_done() < job.steps()) job.step();
  EXPECT_LE(apart(job.latents(), golden("latents_final")), 1e-3);
  const Image image = job.decode(0);
  const at::Tensor want = (golden("image") * 255).round().permute({1, 2, 0}).flatten().contiguous();
  double squares = 0;
  for (int64_t i = 0; i < want.numel(); ++i)
    squares += std::pow(want.const_data_ptr<float>()[i] - image.rgb[static_cast<size_t>(i)], 2);
  EXPECT_GE(10 * std::log10(255.0 * 255.0 * static_cast<double>(want.numel()) / std::max(squares, 1e-9)), 45);
}

TEST_F(OvisImageTest, DefaultsAreThoseOfTheReferencePipeline) {
  const ImageDefaults& defaults = pipeline_->facts().defaults;
  EXPECT_EQ(defaults.guidance_kind, GuidanceKind::kTrue);
  EXPECT_EQ(defaults.guidance_scale, 5);
  EXPECT_EQ(defaults.steps, 50);
  EXPECT_EQ(pipeline_->guidance({}, {}, false).scale, 5);
}

TEST_F(OvisImageTest, F114_GuidanceNeedsNoNegativePrompt) {
  ImageSpec empty = spec();
  empty.negative_prompt = "";
  const at::Tensor guided = latents_of({empty});
  EXPECT_GT(apart(latents_of({spec()}), guided), 1e-3);
  ImageSpec other = empty;
  other.prompt = "a dog";
  const at::Tensor both = latents_of({empty, other});  // one negative for two prompts
  EXPECT_LE(apart(both.narrow(0, 0, 1), guided), 1e-5);
  // At a scale of 1 or less there is no second pass, and the negative prompt has no part.
  for (const double scale : {1.0, 0.0}) {
    ImageSpec plain = spec();
    plain.guidance.scale = scale;
    ImageJob job(*pipeline_, {plain});
    EXPECT_EQ(job.next_input().latents.size(0), 1);
    plain.negative_prompt = "";
    EXPECT_TRUE(latents_of({plain}).equal(latents_of({[&] {
      ImageSpec named = plain;
      named.negative_prompt = "blurry";
      return named;
    }()})));
  }
}

// A copy of the demo model whose files can be taken away.
class Faulty : public testing::Test {
 protected:
  Faulty() : folder_(fs::temp_directory_path() / cat("quaver-faulty-", ::getpid())) {
    fs::copy(kShapesFolder, folder_, fs::copy_options::recursive);
  }
  ~Faulty() override { remove_tree(folder_); }
  std::string refusal() const {
    try {
      opened(folder_);
    } catch (const Error& error) {
      return error.what();
    }
    return "it loads";
  }
  void edit(const fs::path& file, const std::function<void(json&)>& change) const {
    json value = read_json_file((folder_ / file).string());
    change(value);
    std::ofstream(folder_ / file) << value.dump();
  }
  fs::path folder_;
};

TEST_F(Faulty, F029_NoAutoencoder) {
  remove_tree(folder_ / "vae");
  EXPECT_THAT(refusal(), HasSubstr("vae"));
  fs::create_directory(folder_ / "vae");
  EXPECT_THAT(refusal(), ::testing::AllOf(HasSubstr("vae"), HasSubstr("config.json")));
}

TEST_F(Faulty, F029_NoSuchClass) {
  edit("model_index.json", [](json& index) { index["_class_name"] = "NoSuchPipeline"; });
  EXPECT_THAT(refusal(), ::testing::AllOf(HasSubstr("NoSuchPipeline"), HasSubstr("FluxPipeline")));
}

TEST_F(Faulty, F029_SwappedEncoders) {
  fs::rename(folder_ / "text_encoder", folder_ / "t");
  fs::rename(folder_ / "text_encoder_2", folder_ / "text_encoder");
  fs::rename(folder_ / "t", folder_ / "text_encoder_2");
  EXPECT_THAT(refusal(), ::testing::AllOf(HasSubstr("text_encoder"), HasSubstr("expected")));
}

TEST_F(Faulty, F029_AutoencoderOfAnotherModel) {
  edit("transformer/config.json", [](json& config) { config["in_channels"] = 32; });
  EXPECT_THAT(refusal(), HasSubstr("x_embedder.weight"));
}

TEST_F(Faulty, F120_EverySpellingOfADtypeIsRead) {
  for (const json& spelling : {json("float32"), json("torch.float32"), json("bfloat16"), json(nullptr)})
    for (const char* key : {"dtype", "torch_dtype"}) {
      for (const char* part : {"transformer", "text_encoder", "text_encoder_2", "vae"})
        edit(fs::path(part) / "config.json", [&](json& config) { config[key] = spelling; });
      EXPECT_EQ(refusal(), "it loads") << key << " " << spelling;
    }
}

TEST(PictureFaultsTest, F110_Float16StaysFinite) {
  ImageSpec spec{.prompt = "an astronaut", .width = 64, .height = 64, .steps = 1, .text_tokens = 32};
  spec.guidance.embedded = 3.5;
  const auto half = opened(kShapesFolder, {.compute_dtype = at::kHalf}), full = opened(kShapesFolder);
  ImageJob job(*half, {spec}), reference(*full, {spec});
  job.step(), reference.step();
  EXPECT_LE(apart(job.latents(), reference.latents()), 0.02);
  EXPECT_EQ(job.decode(0).width, 64);
}

TEST(PictureFaultsTest, F113_PromptsAreCutAtEachEncodersOwnLimit) {
  c10::InferenceMode no_gradients;
  const auto pipeline = opened(kShapesFolder);
  auto words = [](int count, int changed = -1) {
    std::string text;
    for (int i = 0; i < count; ++i) text += i == changed ? " blue" : " red";
    return text;
  };
  EXPECT_TRUE(pipeline->prompts().encode(words(70), 512).notes.empty());
  const PromptRows longer = pipeline->prompts().encode(words(400), 512);
  ASSERT_EQ(longer.notes.size(), 1u);
  EXPECT_THAT(longer.notes[0], HasSubstr("text_encoder takes 77 tokens"));
  EXPECT_FALSE(longer.text.equal(pipeline->prompts().encode(words(400, 300), 512).text));
  EXPECT_TRUE(longer.pooled.equal(pipeline->prompts().encode(words(400, 300), 512).pooled));
  const PromptRows longest = pipeline->prompts().encode(words(5000), 512);
  ASSERT_EQ(longest.notes.size(), 2u);
  EXPECT_THAT(longest.notes[1], HasSubstr("text_encoder_2 takes 512 tokens"));
  EXPECT_EQ(longest.tokens, 512);
  EXPECT_EQ(pipeline->prompts().encode("\xF0\x9F\x98\x80", 512).text.size(1), 512);
}

TEST(PictureFaultsTest, DamagedWeightsAreNamedAndGiveNoPicture) {
  c10::InferenceMode no_gradients;
  const auto pipeline = opened(kShapesFolder);
  ImageSpec spec{.prompt = "x", .width = 64, .height = 64, .steps = 1, .text_tokens = 32};
  spec.noise =
      at::Tensor(nn::tensor_over(SafetensorsFile::open(kGoldens + "ovis_pipeline.safetensors").read("noise"),
                                 "noise"))
          .repeat({1, 1, 4})
          .clone();
  spec.noise[0][3][1] = std::nan("");
  ImageJob job(*pipeline, {spec});
  try {
    job.step();
    ADD_FAILURE() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
    EXPECT_THAT(error.what(), HasSubstr("transformer gave values that are not finite at step 1 of 1"));
  }
}

}  // namespace
}  // namespace quaver::diffusion
