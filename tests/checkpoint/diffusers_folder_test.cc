// Pipeline folders: components, settings at the root, and what is missing or leads outside.
#include "checkpoint/diffusers_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/scratch_folder.h"
#include "checkpoint/torch_builder.h"

namespace quaver {
namespace {

using testing::catch_error;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::one_tensor;
using testing::ScratchFolder;

constexpr const char* kTwoParts = R"({"_class_name": "SomePipeline", "_diffusers_version": "0.42.1",
  "feature_extractor": [null, null], "image_encoder": null, "is_distilled": true,
  "transformer": ["diffusers", "SomeTransformer"], "vae": ["diffusers", "AutoencoderKL"]})";

void write_component(const ScratchFolder& folder, const std::string& name, const std::string& config) {
  std::filesystem::create_directories(folder.path() / name);
  folder.write(name + "/config.json", config);
  folder.write(name + "/diffusion_pytorch_model.safetensors", one_tensor("a"));
}

void write_two_parts(const ScratchFolder& folder) {
  folder.write("model_index.json", kTwoParts);
  write_component(folder, "transformer", "{}");
  write_component(folder, "vae", "{}");
}

TEST(DiffusersFolderTest, OpensComponents) {
  ScratchFolder folder;
  write_two_parts(folder);
  folder.write("vae/extra.json", R"({"x": 1})");
  ASSERT_TRUE(DiffusersFolder::is(folder.path()));
  const DiffusersFolder pipeline = DiffusersFolder::open(folder.path());
  EXPECT_EQ(pipeline.class_name(), "SomePipeline");
  EXPECT_THAT(pipeline.components(), ElementsAre("transformer", "vae"));
  EXPECT_EQ(pipeline.component_class("vae"), "AutoencoderKL");
  EXPECT_FALSE(pipeline.has("feature_extractor"));
  EXPECT_FALSE(pipeline.has("image_encoder"));
  EXPECT_EQ(pipeline.component("vae")->tensors().size(), 1u);
  EXPECT_EQ(pipeline.component_file("vae", "extra.json"), (json{{"x", 1}}));
  EXPECT_TRUE(pipeline.component_file("vae", "other.json").is_null());
}

TEST(DiffusersFolderTest, SettingsAtTheRootSpeakForTheTransformersAlone) {
  ScratchFolder folder;
  write_two_parts(folder);
  folder.write("quantization_config.json", R"({"bits": 4})");
  const DiffusersFolder pipeline = DiffusersFolder::open(folder.path());
  EXPECT_EQ(pipeline.component("transformer")->config(), (json{{"quantization_config", {{"bits", 4}}}}));
  EXPECT_EQ(pipeline.component("vae")->config(), json::object());
}

const std::filesystem::path kTinyGguf =
    std::filesystem::path(QUAVER_TEST_DATA) / "golden/diffusion/flux_gguf/flux-tiny-mixed.gguf";

TEST(DiffusersFolderTest, OneGgufStandsForTheWeightsOfAComponentWithoutOthers) {
  ScratchFolder folder;
  write_two_parts(folder);
  const std::filesystem::path transformer = folder.path() / "transformer";
  const auto tensors = [&] {
    return DiffusersFolder::open(folder.path()).component("transformer")->tensors().size();
  };
  std::filesystem::copy_file(kTinyGguf, transformer / "a.gguf");
  EXPECT_EQ(tensors(), 1u);  // the folder's own weights win
  std::filesystem::remove(transformer / "diffusion_pytorch_model.safetensors");
  folder.write("transformer/config.json", R"({"x": 1, "quantization_config": {"bits": 4}})");
  const auto files = DiffusersFolder::open(folder.path()).component("transformer");
  EXPECT_EQ(files->config(), (json{{"x", 1}}));
  EXPECT_EQ(files->metadata("general.architecture"), "flux");
  EXPECT_EQ(files->stored_type("double_blocks.0.img_attn.qkv.weight"), DType::kQ5_0);
  EXPECT_EQ(files->find("double_blocks.0.img_attn.qkv.weight")->dtype, DType::kBF16);
  std::filesystem::copy_file(kTinyGguf, transformer / "b.gguf");
  EXPECT_THAT(catch_error([&] { tensors(); }).message, HasSubstr("holds several .gguf files"));
}

TEST(DiffusersFolderTest, AFileCanBeNamedInPlaceOfAComponentsWeights) {
  ScratchFolder folder;
  write_two_parts(folder);
  DiffusersFolder pipeline = DiffusersFolder::open(folder.path());
  pipeline.use_file("transformer", kTinyGguf);
  EXPECT_GT(pipeline.component("transformer")->tensors().size(), 40u);
  EXPECT_EQ(pipeline.component("vae")->tensors().size(), 1u);
  folder.write("b.safetensors", one_tensor("b"));
  pipeline.use_file("transformer", folder.path() / "b.safetensors");
  EXPECT_EQ(pipeline.component("transformer")->tensors().at(0).name, "b");
  EXPECT_THAT(catch_error([&] { pipeline.use_file("transformer", folder.path() / "none.gguf"); }).message,
              HasSubstr("none.gguf: is no file"));
  EXPECT_THAT(catch_error([&] { pipeline.use_file("unet", kTinyGguf); }).message, HasSubstr("unet"));
  folder.write("t.ckpt", "x");
  pipeline.use_file("transformer", folder.path() / "t.ckpt");
  EXPECT_THAT(catch_error([&] { pipeline.component("transformer"); }).message,
              HasSubstr("a file of weights is .gguf or .safetensors"));
}

TEST(DiffusersFolderTest, AComponentsOwnSettingsWin) {
  ScratchFolder folder;
  write_two_parts(folder);
  folder.write("quantization_config.json", R"({"bits": 4})");
  write_component(folder, "transformer", R"({"quantization_config": {"bits": 8}})");
  EXPECT_EQ(
      DiffusersFolder::open(folder.path()).component("transformer")->config()["quantization_config"]["bits"],
      8);
  write_component(folder, "transformer", "{}");
  folder.write("transformer/quantization_config.json", R"({"bits": 2})");
  EXPECT_EQ(DiffusersFolder::open(folder.path()).component("transformer")->config(), json::object());
}

TEST(DiffusersFolderTest, TheIndexMaySpeakForTheTransformers) {
  ScratchFolder folder;
  write_two_parts(folder);
  json index = parse_json(kTwoParts, "index");
  index["quantization_config"] = {{"bits", 3}};
  folder.write("model_index.json", index.dump());
  EXPECT_EQ(
      DiffusersFolder::open(folder.path()).component("transformer")->config()["quantization_config"]["bits"],
      3);
}

TEST(DiffusersFolderTest, NamesWhatIsMissing) {
  ScratchFolder folder;
  EXPECT_FALSE(DiffusersFolder::is(folder.path()));
  EXPECT_THAT(catch_error([&] { DiffusersFolder::open(folder.path()); }).message,
              HasSubstr("has no model_index.json"));
  write_two_parts(folder);
  const DiffusersFolder pipeline = DiffusersFolder::open(folder.path());
  EXPECT_THAT(catch_error([&] { pipeline.component("text_encoder"); }).message,
              HasSubstr("names no component 'text_encoder'"));
  std::filesystem::remove(folder.path() / "vae/config.json");
  EXPECT_THAT(catch_error([&] { pipeline.component("vae"); }).message, HasSubstr("has no config.json"));
  std::filesystem::remove(folder.path() / "vae/diffusion_pytorch_model.safetensors");
  std::filesystem::remove(folder.path() / "vae");
  EXPECT_EQ(catch_error([&] { pipeline.component("vae"); }).kind, ErrorKind::kNotFound);
}

TEST(DiffusersFolderTest, RefusesAnIndexThatIsNone) {
  ScratchFolder folder;
  folder.write("model_index.json", "[1]");
  EXPECT_THAT(catch_error([&] { DiffusersFolder::open(folder.path()); }).message,
              HasSubstr("not a JSON object"));
  folder.write("model_index.json", "{}");
  EXPECT_THAT(catch_error([&] { DiffusersFolder::open(folder.path()); }).message, HasSubstr("_class_name"));
}

TEST(DiffusersFolderTest, StaysInTheFolder) {
  ScratchFolder folder;
  folder.write("model_index.json", R"({"_class_name": "P", "../vae": ["diffusers", "V"]})");
  EXPECT_EQ(catch_error([&] { DiffusersFolder::open(folder.path()).component("../vae"); }).kind,
            ErrorKind::kBadFile);
}

}  // namespace
}  // namespace quaver
