// F064: names in an index or a sidecar do not reach outside the model folder, and links only into their own
// cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/scratch_folder.h"

namespace quaver {
namespace {

namespace fs = std::filesystem;
using testing::catch_error;
using ::testing::HasSubstr;
using testing::one_tensor;
using testing::ScratchFolder;

std::string open_error(const fs::path& folder) {
  return catch_error([&] { open_hugging_face_folder(folder); }).message;
}

void write_index(const ScratchFolder& folder, const std::string& file_name) {
  json index = {{"weight_map", {{"a", file_name}}}};
  folder.write("model/model.safetensors.index.json", index.dump());
}

TEST(F064, NamesThatLeaveTheFolderAreRefusedBeforeAnythingIsOpened) {
  ScratchFolder folder;
  folder.write("b.safetensors", one_tensor("a"));  // what the last names would reach
  folder.write("model/config.json", "{}");
  folder.write("model/a/x", "");
  const std::vector<std::pair<std::string, std::string>> names = {
      {"../../etc/hostname", "leaves the model folder"},
      {"/etc/hostname", "is absolute"},
      {"a/../../b.safetensors", "leaves the model folder"},
      {"../b.safetensors", "leaves the model folder"},
      {std::string("x\0.safetensors", 14), "'x\\x00.safetensors' holds a zero byte"},
      {"", "empty file name"},
      {(folder.path() / "b.safetensors").string(), "is absolute"}};
  for (const auto& [name, expected] : names) {
    write_index(folder, name);
    EXPECT_THAT(open_error(folder.path() / "model"), HasSubstr(expected)) << name;
  }
}

TEST(F064, FoldersInsideTheModelFolderAreAllowed) {
  ScratchFolder folder;
  folder.write("model/config.json", "{}");
  folder.write("model/weights/a.safetensors", one_tensor("a"));
  write_index(folder, "weights/a.safetensors");
  EXPECT_EQ(open_error(folder.path() / "model"), "");
}

TEST(F064, LinksThatResolveOutsideAreRefused) {
  ScratchFolder folder;
  folder.write("model/config.json", "{}");
  auto outside = folder.write("outside.safetensors", one_tensor("a"));
  fs::create_symlink(outside, folder.path() / "model/shard.safetensors");
  write_index(folder, "shard.safetensors");
  EXPECT_THAT(open_error(folder.path() / "model"),
              HasSubstr("is a link to a place outside the model folder"));
  fs::remove(folder.path() / "model/model.safetensors.index.json");
  EXPECT_THAT(open_error(folder.path() / "model"),
              HasSubstr("is a link to a place outside the model folder"));
}

TEST(F064, SidecarsFollowTheSameRule) {
  ScratchFolder folder;
  folder.write("model/model.safetensors", one_tensor("a"));
  auto secret = folder.write("secret.json", "{}");
  fs::create_symlink(secret, folder.path() / "model/config.json");
  EXPECT_THAT(open_error(folder.path() / "model"), HasSubstr("is a link to a place outside"));
  fs::remove(folder.path() / "model/config.json");
  folder.write("model/config.json", "{}");
  fs::create_symlink(secret, folder.path() / "model/tokenizer.json");
  auto checkpoint = open_hugging_face_folder(folder.path() / "model");
  EXPECT_THAT(catch_error([&] { checkpoint->sidecar("tokenizer.json"); }).message, HasSubstr("is a link"));
  EXPECT_THAT(catch_error([&] { checkpoint->sidecar("../secret.json"); }).message, HasSubstr("leaves"));
}

TEST(F064, LinksInsideTheFolderAreAllowed) {
  ScratchFolder folder;
  folder.write("model/config.json", "{}");
  folder.write("model/real.bytes", one_tensor("a"));
  fs::create_symlink("real.bytes", folder.path() / "model/model.safetensors");
  EXPECT_EQ(open_error(folder.path() / "model"), "");
}

// models--org--name/{blobs,snapshots/<revision>}, as the Hugging Face cache lies on disk.
struct Cache {
  ScratchFolder folder;
  fs::path entry, snapshot;
  explicit Cache(const std::string& entry_name)
      : entry(folder.path() / entry_name), snapshot(entry / "snapshots/abc") {
    folder.write(entry_name + "/blobs/1111", "{}");
    folder.write(entry_name + "/blobs/2222", one_tensor("a"));
    fs::create_directories(snapshot / "transformer");
    fs::create_symlink("../../blobs/1111", snapshot / "config.json");
  }
};

TEST(F064, TheCacheMayLinkIntoItsOwnBlobs) {
  Cache cache("models--org--name");
  fs::create_symlink("../../blobs/2222", cache.snapshot / "model.safetensors");
  EXPECT_EQ(open_error(cache.snapshot), "");
  fs::create_directory_symlink(cache.snapshot, cache.folder.path() / "alias");
  EXPECT_EQ(open_error(cache.folder.path() / "alias"), "");
  fs::create_symlink("../../../blobs/1111", cache.snapshot / "transformer/config.json");
  fs::create_symlink("../../../blobs/2222", cache.snapshot / "transformer/model.safetensors");
  EXPECT_EQ(open_error(cache.snapshot / "transformer"), "");
}

TEST(F064, TheCacheMayNotLinkElsewhere) {
  Cache cache("models--org--name");
  cache.folder.write("models--org--other/blobs/3333", one_tensor("a"));
  fs::create_symlink("../../../models--org--other/blobs/3333", cache.snapshot / "model.safetensors");
  EXPECT_THAT(open_error(cache.snapshot), HasSubstr("is a link to a place outside"));
}

TEST(F064, AFolderThatOnlyLooksLikeACacheMayNotLinkOut) {
  Cache cache("my-model");
  fs::create_symlink("../../blobs/2222", cache.snapshot / "model.safetensors");
  EXPECT_THAT(open_error(cache.snapshot), HasSubstr("is a link to a place outside"));
}

}  // namespace
}  // namespace quaver
