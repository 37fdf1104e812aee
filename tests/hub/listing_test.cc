// The hub's list of files is untrusted: names, sizes and checksums are checked before anything is made of
// them.
#include "hub/listing.h"

#include <gtest/gtest.h>

#include "checkpoint/scratch_folder.h"

namespace quaver::hub {
namespace {

using testing::catch_error;

const std::string kListedCommit(40, 'c'), kGit(40, 'a'), kSha256(64, 'b');

json listing_of(const json& siblings) { return {{"sha", kListedCommit}, {"siblings", siblings}}; }

json large(const std::string& path, const json& size) {
  return {
      {"rfilename", path}, {"size", 130}, {"blobId", kGit}, {"lfs", {{"sha256", kSha256}, {"size", size}}}};
}

TEST(Listing, SmallAndLargeFiles) {
  json small = {{"rfilename", "config.json"}, {"size", 12}, {"blobId", kGit}};
  Listing listing = parse_listing(listing_of({large("model.safetensors", 5000000000), small}), "hub");
  EXPECT_EQ(listing.commit, kListedCommit);
  ASSERT_EQ(listing.files.size(), 2u);
  EXPECT_EQ(listing.files[0].path, "config.json");
  EXPECT_EQ(listing.files[0].size_bytes, 12u);
  EXPECT_EQ(listing.files[0].checksum, kGit);
  EXPECT_EQ(listing.files[1].size_bytes, 5000000000u);
  EXPECT_EQ(listing.files[1].checksum, kSha256);
}

TEST(Listing, AMirrorMayTellNamesOnly) {
  Listing listing = parse_listing(listing_of({{{"rfilename", "a"}}}), "hub");
  EXPECT_FALSE(listing.files[0].size_bytes);
  EXPECT_EQ(listing.files[0].checksum, "");
}

TEST(Listing, HostileNames) {
  for (const std::string& path : std::initializer_list<std::string>{"../x", "a/../../x", "/etc/passwd", "",
                                                                    "a/..", "..", std::string("a\0b", 3)}) {
    auto caught = catch_error([&] { parse_listing(listing_of({{{"rfilename", path}}}), "hub"); });
    EXPECT_EQ(caught.kind, ErrorKind::kBadFile) << path;
    EXPECT_EQ(caught.message.find("hub"), 0u) << path;
  }
}

TEST(Listing, NamesThatClash) {
  auto both = [](const char* a, const char* b) {
    return catch_error([&] { parse_listing(listing_of({{{"rfilename", a}}, {{"rfilename", b}}}), "hub"); });
  };
  EXPECT_NE(both("a", "a").message.find("twice"), std::string::npos);
  EXPECT_NE(both("a", "a/b").message.find("a file and a folder"), std::string::npos);
  EXPECT_EQ(both("a", "ab/c").message, "");
  // "a-b" sorts between "a" and "a/b".
  auto three = catch_error([] {
    parse_listing(listing_of({{{"rfilename", "a"}}, {{"rfilename", "a-b"}}, {{"rfilename", "a/b"}}}), "hub");
  });
  EXPECT_NE(three.message.find("a file and a folder"), std::string::npos);
}

TEST(Listing, HostileNumbersAndHashes) {
  auto refuses = [](const json& document) {
    EXPECT_EQ(catch_error([&] { parse_listing(document, "hub"); }).kind, ErrorKind::kBadFile) << document;
  };
  refuses(json::array());
  refuses({{"siblings", json::array()}});
  refuses({{"sha", "../../x"}, {"siblings", json::array()}});
  refuses({{"sha", kListedCommit}, {"siblings", "many"}});
  refuses(listing_of({1}));
  refuses(listing_of({json::object()}));
  refuses(listing_of({large("x", -1)}));
  refuses(listing_of({large("x", 1.5)}));
  refuses(listing_of({large("x", uint64_t{1} << 60)}));
  refuses(listing_of({large("x", "5")}));
  refuses(listing_of({{{"rfilename", "x"}, {"blobId", "../../../x"}}}));
  refuses(listing_of({{{"rfilename", "x"}, {"lfs", {{"sha256", "zz"}}}}}));
}

}  // namespace
}  // namespace quaver::hub
