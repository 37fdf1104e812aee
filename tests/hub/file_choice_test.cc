// Which files are downloaded without being asked for, and which are left out with a reason.
#include "hub/file_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/scratch_folder.h"

namespace quaver::hub {
namespace {

using testing::catch_error;
using ::testing::ElementsAre;

std::vector<RepoFile> files(std::initializer_list<const char*> paths) {
  std::vector<RepoFile> all;
  for (const char* path : paths) all.push_back({.path = path});
  return all;
}

std::vector<std::string> wanted(std::initializer_list<const char*> paths, const FilePatterns& patterns = {},
                                std::string_view only = "") {
  std::vector<std::string> names;
  for (const RepoFile& file : choose_files(files(paths), patterns, only, "org/name").wanted)
    names.push_back(file.path);
  return names;
}

TEST(FileChoice, OneFormOfTheWeights) {
  EXPECT_THAT(wanted({"README.md", "config.json", "model.safetensors", "pytorch_model.bin",
                      "onnx/config.json", "onnx/model.onnx", "original/consolidated.00.pth", "tf_model.h5",
                      "model.gguf", "tokenizer.model"}),
              ElementsAre("README.md", "config.json", "model.safetensors", "tokenizer.model"));
  EXPECT_THAT(wanted({"config.json", "consolidated.safetensors", "model-00001-of-00001.safetensors"}),
              ElementsAre("config.json", "model-00001-of-00001.safetensors"));
  EXPECT_THAT(wanted({"config.json", "consolidated.safetensors"}),
              ElementsAre("config.json", "consolidated.safetensors"));
}

TEST(FileChoice, WithoutSafetensorsNothingIsADuplicate) {
  EXPECT_THAT(wanted({"config.json", "pytorch_model.bin"}), ElementsAre("config.json", "pytorch_model.bin"));
  EXPECT_THAT(wanted({"README.md", "model.gguf"}), ElementsAre("README.md", "model.gguf"));
}

TEST(FileChoice, ReasonsAreGiven) {
  FileChoice choice = choose_files(files({"a.safetensors", "b.bin", "c.md"}),
                                   {.include = {}, .exclude = {"*.md"}}, "", "org/name");
  ASSERT_EQ(choice.skipped.size(), 2u);
  EXPECT_EQ(choice.skipped[0].reason, "pickled weights");
  EXPECT_EQ(choice.skipped[1].reason, "excluded");
}

TEST(FileChoice, Patterns) {
  EXPECT_THAT(wanted({"a.bin", "a.safetensors", "b.json"}, {.include = {"*"}, .exclude = {"*.json"}}),
              ElementsAre("a.bin", "a.safetensors"));
  EXPECT_THAT(wanted({"x/a", "x/y/b", "z"}, {.include = {"x/"}, .exclude = {}}), ElementsAre("x/a", "x/y/b"));
  EXPECT_THAT(wanted({"a1", "a2", "b1"}, {.include = {"a?"}, .exclude = {"[!b]2"}}), ElementsAre("a1"));
  auto nothing = catch_error([] { wanted({"a"}, {.include = {"b"}, .exclude = {}}); });
  EXPECT_EQ(nothing.kind, ErrorKind::kNotFound);
}

TEST(FileChoice, SeveralGgufFilesNeedAChoice) {
  auto caught = catch_error([] { wanted({"m-Q4_0.gguf", "m-Q8_0.gguf"}); });
  EXPECT_EQ(caught.kind, ErrorKind::kInvalidInput);
  EXPECT_NE(caught.message.find("m-Q8_0.gguf"), std::string::npos);
  EXPECT_THAT(wanted({"m-Q4_0.gguf", "m-Q8_0.gguf"}, {}, "m-Q8_0.gguf"), ElementsAre("m-Q8_0.gguf"));
  EXPECT_THAT(wanted({"m-Q4_0.gguf", "m-Q8_0.gguf"}, {.include = {}, .exclude = {"*Q4*"}}),
              ElementsAre("m-Q8_0.gguf"));
  caught = catch_error([] { wanted({"m-Q4_0.gguf"}, {}, "m-Q5_0.gguf"); });
  EXPECT_EQ(caught.kind, ErrorKind::kNotFound);
  EXPECT_NE(caught.message.find("m-Q4_0.gguf"), std::string::npos);
}

}  // namespace
}  // namespace quaver::hub
