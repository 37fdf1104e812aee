// F131: a shard named in the index is missing, empty, or a Git LFS pointer: the start stops and names the
// file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "checkpoint/checkpoint.h"
#include "checkpoint/scratch_folder.h"

namespace quaver {
namespace {

using ::testing::HasSubstr;

struct ThreeShards {
  testing::ScratchFolder folder;
  ThreeShards() {
    json map;
    for (int i = 1; i <= 3; ++i) {
      std::string name = cat("model-0000", i, "-of-00003.safetensors");
      folder.write(name, testing::one_tensor(cat("t", i)));
      map[cat("t", i)] = name;
    }
    folder.write("config.json", "{}");
    folder.write("model.safetensors.index.json", json{{"weight_map", map}}.dump());
  }
  testing::Caught open() const {
    auto start = std::chrono::steady_clock::now();
    auto caught = testing::catch_error([&] { open_hugging_face_folder(folder.path()); });
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
    return caught;
  }
};

constexpr const char* kSecond = "model-00002-of-00003.safetensors";

TEST(F131, AWholeModelOpens) { EXPECT_EQ(ThreeShards().open().message, ""); }

TEST(F131, AMissingShardIsNamed) {
  ThreeShards model;
  std::filesystem::remove(model.folder.path() / kSecond);
  auto caught = model.open();
  EXPECT_EQ(caught.kind, ErrorKind::kNotFound);
  EXPECT_THAT(caught.message, HasSubstr(cat(kSecond, ": does not exist (named by ")));
}

TEST(F131, ADanglingLinkIsNamed) {
  ThreeShards model;
  std::filesystem::remove(model.folder.path() / kSecond);
  std::filesystem::create_symlink("nowhere", model.folder.path() / kSecond);
  EXPECT_THAT(model.open().message, HasSubstr(cat(kSecond, ": does not exist")));
}

TEST(F131, AnEmptyShardIsNamed) {
  ThreeShards model;
  model.folder.write(kSecond, "");
  EXPECT_THAT(model.open().message, HasSubstr(cat(kSecond, ": is empty (0 bytes)")));
}

TEST(F131, AGitLfsPointerIsCalledOne) {
  ThreeShards model;
  model.folder.write(kSecond, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n");
  EXPECT_THAT(model.open().message, HasSubstr(cat(kSecond, ": is a Git LFS pointer")));
}

TEST(F131, AFolderInPlaceOfAShardIsNamed) {
  ThreeShards model;
  std::filesystem::remove(model.folder.path() / kSecond);
  std::filesystem::create_directory(model.folder.path() / kSecond);
  EXPECT_THAT(model.open().message, HasSubstr(cat(kSecond, ": is not a regular file")));
}

}  // namespace
}  // namespace quaver
