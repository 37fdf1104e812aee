// F065: GGUF files of under 200 bytes whose counts, lengths, extents and offsets wrap 64-bit sums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/gguf.h"
#include "checkpoint/gguf_builder.h"
#include "hostile/allocation_guard.h"

namespace quaver {
namespace {

using testing::gguf_type;
using testing::GgufBuilder;
using ::testing::HasSubstr;
using testing::little_endian;

std::string error_of(const std::string& bytes) {
  EXPECT_LT(bytes.size(), 200u);
  testing::ScratchFolder folder;
  auto path = folder.write("model.gguf", bytes);
  testing::reset_peak_allocated_bytes();
  auto caught = testing::catch_error([&] { GgufFile::open(path); });
  EXPECT_LE(testing::peak_allocated_bytes(), 16'384u);
  EXPECT_EQ(caught.kind, ErrorKind::kBadFile);
  EXPECT_THAT(caught.message, HasSubstr(path.string()));
  return caught.message;
}

std::string one_tensor_file(const std::vector<uint64_t>& extents, uint32_t type, uint64_t offset) {
  GgufBuilder file{.data = std::string(64, 'd')};
  return file.tensor("t", extents, type, offset).bytes();
}

TEST(F065, Counts) {
  EXPECT_THAT(error_of(GgufBuilder{.tensor_count = uint64_t{1} << 58}.bytes()),
              HasSubstr("claims 288230376151711744 tensors"));
  EXPECT_THAT(error_of(GgufBuilder{.pair_count = uint64_t{1} << 60}.bytes()),
              HasSubstr("claims 1152921504606846976 metadata entries"));
  EXPECT_THAT(error_of(GgufBuilder{.tensor_count = ~uint64_t{0}, .pair_count = ~uint64_t{0}}.bytes()),
              HasSubstr("claims"));
}

TEST(F065, Extents) {
  EXPECT_THAT(error_of(one_tensor_file({(uint64_t{1} << 42) + 1, 1152}, 0, 0)),
              HasSubstr("runs past the end"));
  EXPECT_THAT(error_of(one_tensor_file({uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0)),
              HasSubstr("overflows"));
  EXPECT_THAT(error_of(one_tensor_file({uint64_t{1} << 62}, 28, 0)), HasSubstr("overflows"));
  EXPECT_THAT(error_of(one_tensor_file({uint64_t{1} << 63}, 24, 0)),
              HasSubstr("extent of 9223372036854775808"));
  EXPECT_THAT(error_of(one_tensor_file({1, 1, 1, 1, 1}, 0, 0)), HasSubstr("has 5 dimensions"));
}

TEST(F065, StringLengths) {
  GgufBuilder value, key{.pair_count = 1}, name{.tensor_count = 1};
  value.pair("k", GgufType::kString, little_endian(uint64_t{1} << 63));
  EXPECT_THAT(error_of(value.bytes() + std::string(16, 'x')), HasSubstr("takes 9223372036854775808 bytes"));
  key.pairs = little_endian(~uint64_t{0}) + std::string(16, 'x');
  EXPECT_THAT(error_of(key.bytes()), HasSubstr("a metadata key"));
  name.tensors = little_endian(~uint64_t{0} - 3) + std::string(32, 'x');
  EXPECT_THAT(error_of(name.bytes()), HasSubstr("a tensor name"));
}

TEST(F065, ArrayLengths) {
  for (GgufType type : {GgufType::kU8, GgufType::kF64, GgufType::kString, GgufType::kArray}) {
    for (uint64_t count : {uint64_t{1} << 61, ~uint64_t{0}, uint64_t{1} << 63}) {
      GgufBuilder file;
      file.pair("k", GgufType::kArray, cat(gguf_type(type), little_endian(count), "12345678"));
      EXPECT_THAT(error_of(file.bytes()), HasSubstr(cat("'k' claims ", count, " members")));
    }
  }
}

TEST(F065, TypesAndOffsets) {
  EXPECT_THAT(error_of(one_tensor_file({8}, 99, 0)), HasSubstr("unknown type 99"));
  EXPECT_THAT(error_of(one_tensor_file({8}, 0, 7)), HasSubstr("offset 7, not a multiple of 32"));
  EXPECT_THAT(error_of(one_tensor_file({8}, 0, 4096)), HasSubstr("runs past the end"));
  EXPECT_THAT(error_of(one_tensor_file({8}, 0, ~uint64_t{31})), HasSubstr("runs past the end"));
}

TEST(F065, Alignment) {
  GgufBuilder file{.data = std::string(8, 'd')};
  file.pair("general.alignment", GgufType::kU32, testing::gguf_u32(1u << 31)).tensor("t", {2}, 0, 0);
  EXPECT_THAT(error_of(file.bytes()), HasSubstr("runs past the end"));
}

}  // namespace
}  // namespace quaver
