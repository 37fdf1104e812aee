// PyTorch's zip archive: what is found in it, and every way in which it can lie.
#include "checkpoint/torch_zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/torch_builder.h"

namespace quaver {
namespace {

using testing::catch_error;
using testing::Caught;
using ::testing::HasSubstr;
using testing::zip_bytes;
using testing::ZipEntry;

TorchZip parse_zip(const std::string& file) {
  return parse_torch_zip(std::as_bytes(std::span(file)), "x.bin");
}

Caught zip_refusal(const std::string& file) {
  return catch_error([&] { parse_zip(file); });
}

std::vector<ZipEntry> entries() {
  return {{"x/data.pkl", "pickle"},
          {"x/byteorder", "little"},
          {"x/data/0", "zero"},
          {"x/data/1", ""},
          {"x/version", "3\n"}};
}

TEST(TorchZip, FindsPickleAndStorages) {
  for (const bool zip64 : {false, true}) {
    const std::string file = zip_bytes(entries(), zip64);
    const TorchZip zip = parse_zip(file);
    EXPECT_EQ(file.substr(zip.pickle.offset, zip.pickle.size_bytes), "pickle");
    ASSERT_EQ(zip.storages.size(), 2u);
    EXPECT_EQ(file.substr(zip.storages.at("0").offset, 4), "zero");
    EXPECT_EQ(zip.storages.at("1").size_bytes, 0u);
  }
}

TEST(TorchZip, ACommentIsSkipped) {
  std::string file = zip_bytes(entries());
  file[file.size() - 2] = 5;
  EXPECT_EQ(parse_zip(file + "hello").storages.size(), 2u);
  EXPECT_THAT(zip_refusal(file + "hell").message, HasSubstr("has no directory at its end (cut off?)"));
}

TEST(TorchZip, RefusesEntriesThatTorchDoesNotWrite) {
  const auto with = [](ZipEntry entry) {
    std::vector<ZipEntry> all = entries();
    all.push_back(std::move(entry));
    return zip_refusal(zip_bytes(all));
  };
  EXPECT_EQ(with({"x/data/2", "z", 8}).kind, ErrorKind::kUnsupported);
  EXPECT_EQ(
      with({"x/data/2", "z", 8}).message,
      "x.bin: zip entry 'x/data/2' is compressed (method 8), which torch.save does not do; unpack and save "
      "again");
  EXPECT_EQ(with({"x/data/2", "z", 0, 1}).message, "x.bin: zip entry 'x/data/2' is encrypted");
  EXPECT_EQ(with({"x/data/0", "z"}).message, "x.bin: zip entry 'x/data/0' stands twice");
  EXPECT_EQ(with({"y/data/0", "z"}).message, "x.bin: zip entry 'y/data/0' lies outside 'x/'");
  EXPECT_EQ(with({"y/data.pkl", "z"}).message, "x.bin: the zip archive holds more than one data.pkl");
  EXPECT_EQ(with({"x/data/2", "z", 0, 0, "x/data/9"}).message,
            "x.bin: zip entry 'x/data/2' has another header than the directory says");
  EXPECT_EQ(with({"x/constants.pkl", ""}).message, "x.bin: is a TorchScript program, not a set of tensors");
  EXPECT_EQ(with({"x/code/a.py", ""}).kind, ErrorKind::kUnsupported);
  EXPECT_EQ(zip_refusal(zip_bytes({{"x/data/0", ""}})).message,
            "x.bin: the zip archive holds no data.pkl, so torch.save did not write it");
  EXPECT_EQ(zip_refusal(zip_bytes({{"x/data.pkl", ""}, {"x/byteorder", "big"}})).message,
            "x.bin: has byte order 'big', expected 'little'");
}

TEST(TorchZip, RefusesOtherContainers) {
  const auto says = [](const std::string& file, ErrorKind kind, const char* text) {
    const Caught caught = zip_refusal(file);
    EXPECT_EQ(caught.kind, kind) << text;
    EXPECT_THAT(caught.message, HasSubstr(text));
  };
  says("", ErrorKind::kBadFile, "is empty (0 bytes)");
  says("\x80\x02}.", ErrorKind::kUnsupported, "is a bare pickle as PyTorch before 1.6 wrote it");
  says(cat(std::string(257, 'a'), "ustar", std::string(300, 0)), ErrorKind::kUnsupported, "is a tar archive");
  says("version https://git-lfs.github.com/spec/v1\n", ErrorKind::kBadFile, "is a Git LFS pointer");
  says("Rar!", ErrorKind::kBadFile, "does not begin as PyTorch's zip archive does");
}

TEST(TorchZip, NoCutIsTaken) {
  for (const bool zip64 : {false, true}) {
    const std::string file = zip_bytes(entries(), zip64);
    for (size_t size = 0; size < file.size(); ++size)
      EXPECT_NE(zip_refusal(file.substr(0, size)).message, "") << size;
  }
}

// Each number of the directory and the end records, made too large.
TEST(TorchZip, NumbersThatLie) {
  const std::string small = zip_bytes(entries()), large = zip_bytes(entries(), true);
  const auto with = [](std::string file, size_t at, uint64_t value, int width) {
    file.replace(at, static_cast<size_t>(width), testing::little_endian(value, width));
    return zip_refusal(file).message;
  };
  const size_t end = small.size() - 22, first = small.find("PK\1\2"), end64 = large.size() - 22 - 20 - 56;
  EXPECT_THAT(with(small, end + 4, 1, 2), HasSubstr("is one of several parts"));
  EXPECT_THAT(with(small, end + 10, 9, 2), HasSubstr("directory has 5 entries, its end record says 9"));
  EXPECT_THAT(with(small, end + 12, 1, 4), HasSubstr("does not end where its end record begins"));
  EXPECT_THAT(with(small, end + 16, 0xfffffff0, 4), HasSubstr("does not end where its end record begins"));
  EXPECT_THAT(with(small, end + 16, 0xffffffff, 4), HasSubstr("lacks its zip64 record"));
  EXPECT_THAT(with(small, first, 0, 4), HasSubstr("directory is broken at byte"));
  EXPECT_THAT(with(small, first + 28, 0xffff, 2), HasSubstr("directory is cut off at byte"));
  EXPECT_THAT(with(small, first + 20, 5, 4), HasSubstr("takes 5 bytes for 6"));
  EXPECT_THAT(with(small, first + 42, 0xfffffff0, 4), HasSubstr("has no header at byte 4294967280"));
  EXPECT_THAT(with(small, first + 42, 0xffffffff, 4), HasSubstr("lacks its zip64 field"));
  EXPECT_THAT(with(small, first + 42, small.find("PK\3\4", 4), 4), HasSubstr("another header"));
  EXPECT_THAT(with(small, 26, 0xffff, 2), HasSubstr("runs past the entries' end"));
  EXPECT_THAT(with(large, end64 + 32, ~uint64_t{0}, 8),
              HasSubstr("its end record says 18446744073709551615"));
  EXPECT_THAT(with(large, end64 + 40, ~uint64_t{0}, 8), HasSubstr("does not end where"));
  EXPECT_THAT(with(large, large.size() - 22 - 12, ~uint64_t{0}, 8),
              HasSubstr("zip64 record does not stand before"));
  EXPECT_THAT(with(large, large.size() - 22 + 10, 4, 2), HasSubstr("two end records disagree"));
}

TEST(TorchZip, EntriesThatOverlap) {
  std::string file = zip_bytes({{"x/data.pkl", "pickle"}, {"x/data/0", "zero"}});
  const size_t first = file.find("PK\1\2");
  // Both sizes of the pickle in the directory now reach into the next entry.
  file.replace(first + 20, 8, testing::little_endian(9, 4) + testing::little_endian(9, 4));
  EXPECT_EQ(zip_refusal(file).message, "x.bin: zip entry 'x/data/0' overlaps 'x/data.pkl'");
}

}  // namespace
}  // namespace quaver
