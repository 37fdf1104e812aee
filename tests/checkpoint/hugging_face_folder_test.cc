// Model folders: single file, shards with an index, and every way in which they can contradict themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/scratch_folder.h"
#include "checkpoint/torch_builder.h"

namespace quaver {
namespace {

using testing::catch_error;
using ::testing::HasSubstr;
using testing::one_tensor;
using testing::ScratchFolder;

std::string open_error(const ScratchFolder& folder) {
  return catch_error([&] { open_hugging_face_folder(folder.path()); }).message;
}

void write_two_shards(const ScratchFolder& folder) {
  folder.write("config.json", R"({"model_type": "tiny"})");
  folder.write("model-00001-of-00002.safetensors", one_tensor("a"));
  folder.write("model-00002-of-00002.safetensors", one_tensor("b"));
  folder.write(
      "model.safetensors.index.json",
      R"({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})");
}

TEST(HuggingFaceFolder, ReadsASingleFile) {
  ScratchFolder folder;
  folder.write("config.json", R"({"hidden_size": 2})");
  folder.write("model.safetensors", one_tensor("a"));
  auto checkpoint = open_hugging_face_folder(folder.path());
  EXPECT_EQ(checkpoint->config().at("hidden_size"), 2);
  ASSERT_EQ(checkpoint->tensors().size(), 1u);
  TensorView view = checkpoint->read("a");
  EXPECT_EQ(view.dtype, DType::kF32);
  EXPECT_EQ(view.shape, std::vector<int64_t>{2});
  EXPECT_EQ(std::memcmp(view.data.bytes().data(), "01234567", 8), 0);
  EXPECT_EQ(checkpoint->file_of("a"), (folder.path() / "model.safetensors").string());
}

TEST(HuggingFaceFolder, ViewsOutliveTheCheckpoint) {
  ScratchFolder folder;
  folder.write("config.json", "{}");
  folder.write("weights.safetensors", one_tensor("a"));
  TensorView view = open_hugging_face_folder(folder.path())->read("a");
  EXPECT_EQ(std::memcmp(view.data.bytes().data(), "01234567", 8), 0);
}

TEST(HuggingFaceFolder, ReadsShards) {
  ScratchFolder folder;
  write_two_shards(folder);
  auto checkpoint = open_hugging_face_folder(folder.path());
  ASSERT_EQ(checkpoint->tensors().size(), 2u);
  EXPECT_THAT(checkpoint->file_of("b"), HasSubstr("00002-of"));
  EXPECT_EQ(checkpoint->find("c"), nullptr);
  auto missing = catch_error([&] { checkpoint->read("c"); });
  EXPECT_EQ(missing.kind, ErrorKind::kNotFound);
  EXPECT_THAT(missing.message, HasSubstr("has no tensor 'c'"));
}

// A file of one tensor with a text in its header.
std::string tensor_with_text(std::string_view name, std::string_view text) {
  return testing::safetensors_bytes(cat(R"({"__metadata__":{"about":")", text, R"("},")", name,
                                        R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
                                    "01234567");
}

TEST(HuggingFaceFolder, HeaderTextsOfAllShardsAreOne) {
  ScratchFolder folder;
  write_two_shards(folder);
  EXPECT_EQ(open_hugging_face_folder(folder.path())->metadata("about"), "");
  folder.write("model-00002-of-00002.safetensors", tensor_with_text("b", "text"));
  EXPECT_EQ(open_hugging_face_folder(folder.path())->metadata("about"), "text");
  folder.write("model-00001-of-00002.safetensors", tensor_with_text("a", "other"));
  const std::string message =
      catch_error([&] { open_hugging_face_folder(folder.path())->metadata("about"); }).message;
  EXPECT_THAT(message, HasSubstr("model-00002-of-00002.safetensors: its header's 'about' is not that of "));
}

TEST(HuggingFaceFolder, SidecarsAreJsonOrNull) {
  ScratchFolder folder;
  write_two_shards(folder);
  folder.write("generation_config.json", R"({"eos_token_id": 7})");
  auto checkpoint = open_hugging_face_folder(folder.path());
  EXPECT_EQ(checkpoint->sidecar("generation_config.json").at("eos_token_id"), 7);
  EXPECT_TRUE(checkpoint->sidecar("preprocessor_config.json").is_null());
  EXPECT_THAT(catch_error([&] { checkpoint->sidecar("../x.json"); }).message,
              HasSubstr("leaves the model folder"));
}

TEST(HuggingFaceFolder, NamesWhatIsMissing) {
  ScratchFolder folder;
  EXPECT_THAT(open_error(folder), HasSubstr("has no config.json"));
  folder.write("config.json", "[1]");
  EXPECT_THAT(open_error(folder), HasSubstr("config.json: is not a JSON object"));
  folder.write("config.json", "{}");
  EXPECT_THAT(open_error(folder), HasSubstr("holds no safetensors file"));
  folder.write("a.safetensors", one_tensor("a"));
  folder.write("b.safetensors", one_tensor("b"));
  EXPECT_THAT(open_error(folder), HasSubstr("holds 2 safetensors files (a.safetensors, b.safetensors)"));
  auto nowhere = catch_error([&] { open_hugging_face_folder(folder.path() / "nowhere"); });
  EXPECT_EQ(nowhere.kind, ErrorKind::kNotFound);
  EXPECT_THAT(catch_error([&] { open_hugging_face_folder(folder.path() / "config.json"); }).message,
              HasSubstr("is a file, expected a model folder"));
}

TEST(HuggingFaceFolder, IndexPromisesATensorThatItsShardLacks) {
  ScratchFolder folder;
  write_two_shards(folder);
  folder.write("model-00002-of-00002.safetensors", one_tensor("c"));
  EXPECT_THAT(open_error(folder),
              ::testing::AllOf(HasSubstr("model-00002-of-00002.safetensors: has no tensor 'b'"),
                               HasSubstr("index.json promises")));
}

TEST(HuggingFaceFolder, ShardHoldsATensorThatTheIndexLacks) {
  ScratchFolder folder;
  write_two_shards(folder);
  folder.write("model-00002-of-00002.safetensors",
               testing::safetensors_bytes(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                          R"("stray":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                                          "01234567"));
  EXPECT_THAT(open_error(folder), HasSubstr("00002.safetensors: tensor 'stray' is not listed in"));
}

TEST(HuggingFaceFolder, TensorStandsInTwoShards) {
  ScratchFolder folder;
  write_two_shards(folder);
  folder.write("model-00002-of-00002.safetensors", one_tensor("a"));
  EXPECT_THAT(open_error(folder), HasSubstr("model-00002-of-00002.safetensors: tensor 'a' stands in"));
}

TEST(HuggingFaceFolder, IndexPointsAtTheWrongShard) {
  ScratchFolder folder;
  write_two_shards(folder);
  folder.write(
      "model.safetensors.index.json",
      R"({"weight_map": {"b": "model-00001-of-00002.safetensors", "a": "model-00002-of-00002.safetensors"}})");
  EXPECT_THAT(open_error(folder), HasSubstr("looks for tensor 'a' in 'model-00002-of-00002.safetensors'"));
}

TEST(HuggingFaceFolder, IndexThatIsNotOne) {
  ScratchFolder folder;
  write_two_shards(folder);
  for (const char* text :
       {"{}", "[]", R"({"weight_map": []})", R"({"weight_map": {}})", R"({"weight_map": {"a": 1}})"}) {
    folder.write("model.safetensors.index.json", text);
    EXPECT_THAT(open_error(folder), HasSubstr("weight_map")) << text;
  }
}

TEST(HuggingFaceFolder, LeftoverSingleFileBesideAnIndex) {
  ScratchFolder folder;
  write_two_shards(folder);
  folder.write("model.safetensors", one_tensor("a"));
  EXPECT_THAT(open_error(folder), HasSubstr("an index that does not name it"));
}

TEST(HuggingFaceFolder, IndexOfASingleFile) {
  ScratchFolder folder;
  folder.write("config.json", "{}");
  folder.write("model.safetensors", one_tensor("a"));
  folder.write("model.safetensors.index.json", R"({"weight_map": {"a": "model.safetensors"}})");
  EXPECT_EQ(open_hugging_face_folder(folder.path())->tensors().size(), 1u);
}

TEST(HuggingFaceFolder, FilesBesideTheIndexAreIgnored) {
  ScratchFolder folder;
  write_two_shards(folder);
  folder.write("consolidated.safetensors", one_tensor("z"));
  EXPECT_EQ(open_hugging_face_folder(folder.path())->find("z"), nullptr);
}

void write_two_pickles(const ScratchFolder& folder) {
  folder.write("config.json", "{}");
  folder.write("pytorch_model-00001-of-00002.bin", testing::one_torch_tensor("a"));
  folder.write("pytorch_model-00002-of-00002.bin", testing::one_torch_tensor("b"));
  folder.write(
      "pytorch_model.bin.index.json",
      R"({"weight_map": {"a": "pytorch_model-00001-of-00002.bin", "b": "pytorch_model-00002-of-00002.bin"}})");
}

TEST(PickledFolder, ReadsASingleFile) {
  for (const char* name : {"pytorch_model.bin", "diffusion_pytorch_model.bin"}) {
    ScratchFolder folder;
    folder.write("config.json", "{}");
    folder.write(name, testing::one_torch_tensor("a"));
    folder.write("training_args.bin", "never opened");
    auto checkpoint = open_hugging_face_folder(folder.path());
    ASSERT_EQ(checkpoint->tensors().size(), 1u);
    checkpoint->release("a");
    EXPECT_EQ(std::memcmp(checkpoint->read("a").data.bytes().data(), "01234567", 8), 0);
    EXPECT_EQ(checkpoint->file_of("a"), (folder.path() / name).string());
  }
}

TEST(PickledFolder, ReadsShardsAndSaysSo) {
  ScratchFolder folder;
  write_two_pickles(folder);
  ::testing::internal::CaptureStderr();
  auto checkpoint = open_hugging_face_folder(folder.path());
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      HasSubstr("reading tensors from pickles (pytorch_model-00001-of-00002.bin, pytorch_model-00002"));
  ASSERT_EQ(checkpoint->tensors().size(), 2u);
  EXPECT_THAT(checkpoint->file_of("b"), HasSubstr("00002-of-00002.bin"));
}

TEST(PickledFolder, SafetensorsComeFirst) {
  ScratchFolder folder;
  write_two_pickles(folder);
  folder.write("model.safetensors", one_tensor("c"));
  EXPECT_NE(open_hugging_face_folder(folder.path())->find("c"), nullptr);
}

TEST(PickledFolder, IndexAndShardsAgree) {
  ScratchFolder folder;
  write_two_pickles(folder);
  folder.write("pytorch_model-00002-of-00002.bin", testing::one_torch_tensor("c"));
  EXPECT_THAT(open_error(folder), HasSubstr("pytorch_model-00002-of-00002.bin: has no tensor 'b'"));
  folder.write("pytorch_model-00002-of-00002.bin", testing::one_torch_tensor("a"));
  EXPECT_THAT(open_error(folder), HasSubstr("00002.bin: tensor 'a' stands in "));
  folder.write("pytorch_model.bin", testing::one_torch_tensor("a"));
  EXPECT_THAT(open_error(folder), HasSubstr("holds pytorch_model.bin and an index that does not name it"));
  folder.write("pytorch_model.bin.index.json", R"({"weight_map": {"a": "a.safetensors"}})");
  EXPECT_THAT(open_error(folder), HasSubstr("names 'a.safetensors', expected files that end in '.bin'"));
}

TEST(PickledFolder, ShardsWithoutAnIndexAreRefused) {
  ScratchFolder folder;
  write_two_pickles(folder);
  std::filesystem::remove(folder.path() / "pytorch_model.bin.index.json");
  EXPECT_THAT(
      open_error(folder),
      HasSubstr("holds pickle files (pytorch_model-00001-of-00002.bin, pytorch_model-00002-of-00002.bin) but "
                "no safetensors, no pytorch_model.bin and no pytorch_model.bin.index.json"));
}

// The index speaks of a tensor by its own name, the file holds its parts.
TEST(PickledFolder, IndexesNameTensorsOfClassesWhole) {
  namespace pickle = testing::pickle;
  ScratchFolder folder;
  write_two_pickles(folder);
  const std::string tensor =
      pickle::typed_tensor("some.package", "OwnTensor", {pickle::text("scale"), pickle::tensor({})});
  folder.write("pytorch_model-00002-of-00002.bin",
               testing::torch_file(pickle::dictionary({pickle::text("b"), tensor}), {"01234567"}));
  EXPECT_NE(open_hugging_face_folder(folder.path())->find("_b_scale"), nullptr);
  folder.write("pytorch_model-00002-of-00002.bin",
               testing::torch_file(pickle::dictionary({pickle::text("c"), tensor}), {"01234567"}));
  EXPECT_THAT(open_error(folder), HasSubstr("has no tensor 'b'"));
}

}  // namespace
}  // namespace quaver
