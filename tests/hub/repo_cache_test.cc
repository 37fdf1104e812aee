// The cache on disk: its layout, and what counts as a model that is there.
#include "hub/repo_cache.h"

#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "checkpoint/scratch_folder.h"

namespace quaver::hub {
namespace {

namespace fs = std::filesystem;
using testing::catch_error;
using testing::ScratchFolder;

const std::string kCachedCommit(40, 'c'), kBlob(40, 'a'), kOther(40, 'b');
const RepoName kName{.id = "org/name"};

TEST(RepoCache, Layout) {
  RepoCache cache("/cache", "org/name");
  EXPECT_EQ(cache.blob(kBlob), cat("/cache/models--org--name/blobs/", kBlob));
  EXPECT_EQ(cache.snapshot(kCachedCommit), cat("/cache/models--org--name/snapshots/", kCachedCommit));
  EXPECT_EQ(cache.lock(kBlob), cat("/cache/.locks/models--org--name/", kBlob, ".lock"));
}

TEST(RepoCache, LinksAreRelativeAndFollowTheContent) {
  ScratchFolder folder;
  RepoCache cache(folder.path(), "org/name");
  folder.write(cat("models--org--name/blobs/", kBlob), "one");
  folder.write(cat("models--org--name/blobs/", kOther), "two");
  fs::path place = cache.snapshot(kCachedCommit) / "deep" / "er" / "file";
  cache.link(kCachedCommit, "deep/er/file", kBlob);
  EXPECT_EQ(fs::read_symlink(place), cat("../../../../blobs/", kBlob));
  EXPECT_EQ(read_text_file(place, 10), "one");
  cache.link(kCachedCommit, "deep/er/file", kBlob);
  EXPECT_EQ(read_text_file(place, 10), "one");
  cache.link(kCachedCommit, "deep/er/file", kOther);
  EXPECT_EQ(read_text_file(place, 10), "two");
}

TEST(RepoCache, Refs) {
  ScratchFolder folder;
  RepoCache cache(folder.path(), "org/name");
  EXPECT_FALSE(cache.commit_of("main"));
  cache.write_ref("refs/pr/1", kCachedCommit);
  EXPECT_EQ(read_text_file(folder.path() / "models--org--name/refs/refs/pr/1", 100), kCachedCommit);
  EXPECT_EQ(cache.commit_of("refs/pr/1"), kCachedCommit);
  EXPECT_EQ(cache.commit_of(kCachedCommit), kCachedCommit);
  cache.write_ref(kCachedCommit, kCachedCommit);
  EXPECT_FALSE(fs::exists(cache.folder() / "refs" / kCachedCommit));
  folder.write("models--org--name/refs/main", "../../x");
  EXPECT_EQ(catch_error([&] { cache.commit_of("main"); }).kind, ErrorKind::kBadFile);
}

class FindCached : public ::testing::Test {
 protected:
  FindCached() { folder.write("models--org--name/refs/main", kCachedCommit); }
  void add(const char* name, std::string_view text = "{}") {
    folder.write(cat("models--org--name/snapshots/", kCachedCommit, "/", name), text);
  }
  bool found(bool whole_model) { return find_cached(folder.path(), kName, whole_model).has_value(); }

  ScratchFolder folder;
};

TEST_F(FindCached, AWholeModelHasConfigWeightsAndTokenizer) {
  EXPECT_FALSE(found(false));
  add("config.json");
  EXPECT_TRUE(found(false));
  EXPECT_FALSE(found(true));
  add("tokenizer.json");
  EXPECT_FALSE(found(true));
  add("model.safetensors");
  EXPECT_TRUE(found(true));
}

TEST_F(FindCached, AMissingShardIsNoticed) {
  add("config.json");
  add("tokenizer.json");
  add("model-00001-of-00002.safetensors");
  add("model.safetensors.index.json",
      R"({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})");
  EXPECT_FALSE(found(true));
  add("model-00002-of-00002.safetensors");
  EXPECT_TRUE(found(true));
}

TEST_F(FindCached, OneFile) {
  add("Q4/model.gguf");
  RepoName name = kName;
  name.file = "Q4/model.gguf";
  EXPECT_EQ(find_cached(folder.path(), name, true).value().filename(), "model.gguf");
  name.file = "Q8/model.gguf";
  EXPECT_FALSE(find_cached(folder.path(), name, true));
  name.file = "../../refs/main";
  EXPECT_EQ(catch_error([&] { find_cached(folder.path(), name, true); }).kind, ErrorKind::kBadFile);
  EXPECT_FALSE(found(true));  // not in the folder itself
  add("model.gguf");
  EXPECT_TRUE(found(true));
}

}  // namespace
}  // namespace quaver::hub
