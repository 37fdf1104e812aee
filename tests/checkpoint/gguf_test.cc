// GGUF files: every metadata type as the gguf package wrote it, typed access, tensors, and each lie refused.
#include "checkpoint/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/gguf_builder.h"

namespace quaver {
namespace {

using testing::catch_error;
using ::testing::ElementsAre;
using testing::gguf_string;
using testing::gguf_type;
using testing::gguf_u32;
using testing::GgufBuilder;
using ::testing::HasSubstr;
using testing::little_endian;

GgufFile every_value() {
  return GgufFile::open(std::filesystem::path(QUAVER_TEST_DATA) / "golden/checkpoint/every_value.gguf");
}

GgufContents parse_text(const std::string& bytes) {
  return parse_gguf(std::as_bytes(std::span(bytes)), "x.gguf");
}
std::string gguf_error(const std::string& bytes) {
  auto caught = catch_error([&] { parse_text(bytes); });
  EXPECT_TRUE(caught.message.empty() || caught.message.starts_with("x.gguf: ")) << caught.message;
  return caught.message;
}

TEST(Gguf, ReadsEveryScalarType) {
  GgufFile file = every_value();
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.string("general.architecture"), "llama");
  EXPECT_EQ(file.integer("t.uint8"), 200);
  EXPECT_EQ(file.integer("t.int8"), -100);
  EXPECT_EQ(file.integer("t.uint16"), 60000);
  EXPECT_EQ(file.integer("t.int16"), -30000);
  EXPECT_EQ(file.integer("t.uint32"), 4000000000);
  EXPECT_EQ(file.integer("t.int32"), -2000000000);
  EXPECT_EQ(file.integer("t.int64"), -(int64_t{1} << 62));
  EXPECT_EQ(file.number("t.float32"), static_cast<double>(0.1f));
  EXPECT_EQ(file.number("t.float64"), 0.1);
  EXPECT_EQ(file.number("t.uint64"), 0x1p63);
  EXPECT_EQ(file.find_boolean("t.bool"), true);
  EXPECT_EQ(file.string("t.string"), "na\xc3\xafve");
  EXPECT_EQ(file.find("t.uint16")->type, GgufType::kU16);
}

TEST(Gguf, ReadsArrays) {
  GgufFile file = every_value();
  EXPECT_THAT(*file.find_integers("a.int8"), ElementsAre(0, 1, -100));
  EXPECT_THAT(*file.find_integers("a.uint32"), ElementsAre(0, 1, 4000000000));
  EXPECT_THAT(*file.find_integers("a.int64"), ElementsAre(0, 1, -(int64_t{1} << 62)));
  EXPECT_THAT(*file.find_numbers("a.float64"), ElementsAre(0, 1, 0.1));
  EXPECT_THAT(*file.find_booleans("a.bool"), ElementsAre(true, false, true));
  EXPECT_THAT(*file.find_strings("tokenizer.ggml.tokens"), ElementsAre("<s>",
                                                                       "\xc4\xa0"
                                                                       "a",
                                                                       "", "\xe2\x96\x81\xc3\xa9"));
  EXPECT_EQ(file.find_strings("tokenizer.ggml.merges"), std::nullopt);
}

TEST(Gguf, WrongTypesNameKeyAndType) {
  GgufFile file = every_value();
  auto wrong = catch_error([&] { file.integer("t.string"); });
  EXPECT_EQ(wrong.kind, ErrorKind::kBadFile);
  EXPECT_THAT(wrong.message,
              HasSubstr("metadata key 't.string' is of type string or out of range, expected an integer"));
  EXPECT_NE(catch_error([&] { file.integer("t.uint64"); }).message, "");  // above the range of int64
  EXPECT_THAT(catch_error([&] { file.find_integers("t.uint8"); }).message,
              HasSubstr("expected an array of integers"));
  EXPECT_THAT(catch_error([&] { file.find_string("a.int8"); }).message, HasSubstr("is of type array of i8"));
  EXPECT_THAT(catch_error([&] { file.string("absent"); }).message, HasSubstr("has no metadata key 'absent'"));
}

TEST(Gguf, ShapesAreRowMajor) {
  GgufFile file = every_value();
  EXPECT_EQ(file.entries().size(), 4u);
  EXPECT_THAT(file.find_tensor("matrix")->info.shape, ElementsAre(3, 64));
  EXPECT_THAT(file.find_tensor("half")->info.shape, ElementsAre(2, 3, 5));
  TensorView q8 = file.read("q8");
  EXPECT_EQ(q8.dtype, DType::kQ8_0);
  EXPECT_THAT(q8.shape, ElementsAre(2, 64));
  EXPECT_EQ(q8.data.size_bytes(), 4u * 34u);
  EXPECT_THAT(file.read("vector").data.as<int32_t>(), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_EQ(catch_error([&] { file.read("absent"); }).kind, ErrorKind::kNotFound);
}

TEST(Gguf, VocabularyOnlyFilesHaveNoTensors) {
  GgufBuilder file;
  file.pair("general.name", GgufType::kString, gguf_string("x"));
  EXPECT_TRUE(parse_text(file.bytes()).entries.empty());
}

TEST(Gguf, ReadsVersion2AndOtherAlignments) {
  GgufBuilder file{.version = 2, .data = "01234567", .alignment = 8};
  file.pair("general.alignment", GgufType::kU32, gguf_u32(8)).tensor("a", {2}, 0, 0);
  std::string bytes = file.bytes();
  auto contents = parse_text(bytes);
  EXPECT_EQ(contents.version, 2u);
  EXPECT_EQ(contents.entries[0].offset, bytes.size() - 8);
}

TEST(Gguf, ReadsArraysOfArrays) {
  std::string inner = cat(gguf_type(GgufType::kU8), little_endian(2), "ab");
  GgufBuilder file;
  std::string nested = cat(gguf_type(GgufType::kArray), little_endian(2), inner, inner);
  file.pair("k", GgufType::kArray, nested);
  std::string bytes = file.bytes();
  auto contents = parse_text(bytes);
  ASSERT_EQ(contents.metadata.at("k").arrays.size(), 2u);
  EXPECT_EQ(contents.metadata.at("k").arrays[1].integer(1), 'b');
}

TEST(Gguf, RefusesArraysNestedDeeply) {
  std::string nested;
  for (int i = 0; i < 100; ++i) nested += cat(gguf_type(GgufType::kArray), little_endian(1));
  GgufBuilder file;
  EXPECT_THAT(gguf_error(file.pair("k", GgufType::kArray, nested).bytes()),
              HasSubstr("nests arrays deeper than 4"));
}

TEST(Gguf, RefusesOtherMagicsAndVersions) {
  EXPECT_THAT(gguf_error(""), HasSubstr("is empty"));
  EXPECT_THAT(gguf_error("GG"), HasSubstr("does not begin with 'GGUF' but with 'GG'"));
  EXPECT_THAT(gguf_error("version https://git-lfs.github.com/spec/v1"), HasSubstr("Git LFS pointer"));
  EXPECT_THAT(gguf_error(GgufBuilder{.version = 1}.bytes()), HasSubstr("is GGUF version 1"));
  EXPECT_THAT(gguf_error(GgufBuilder{.version = 4}.bytes()), HasSubstr("is GGUF version 4"));
  EXPECT_THAT(gguf_error(GgufBuilder{.version = 3u << 24}.bytes()), HasSubstr("big-endian"));
}

TEST(Gguf, RefusesBadMetadata) {
  auto with = [](std::string_view key, GgufType type, std::string_view value) {
    return gguf_error(GgufBuilder().pair(key, type, value).bytes());
  };
  EXPECT_THAT(with("", GgufType::kU8, "x"), HasSubstr("is 0 bytes long"));
  EXPECT_THAT(with("k", static_cast<GgufType>(13), "x"), HasSubstr("unknown value type 13"));
  EXPECT_THAT(with("k", GgufType::kBool, "\x02"), HasSubstr("holds the bool 2"));
  EXPECT_THAT(with("k", GgufType::kU64, "1234"), HasSubstr("claims 1 members of type u64, but only 4 bytes"));
  EXPECT_THAT(
      with("k", GgufType::kArray, cat(gguf_type(GgufType::kU64), little_endian(uint64_t{1} << 61), "x")),
      HasSubstr("claims 2305843009213693952 members"));
  GgufBuilder twice;
  twice.pair("k", GgufType::kU8, "x").pair("k", GgufType::kU8, "x");
  EXPECT_THAT(gguf_error(twice.bytes()), HasSubstr("'k' stands twice"));
  for (uint32_t alignment : {0u, 3u, 48u}) {
    GgufBuilder file;
    EXPECT_THAT(gguf_error(file.pair("general.alignment", GgufType::kU32, gguf_u32(alignment)).bytes()),
                HasSubstr("power of two"));
  }
  EXPECT_THAT(with("general.alignment", GgufType::kString, gguf_string("32")), HasSubstr("power of two"));
}

TEST(Gguf, RefusesBadTensors) {
  auto with = [](const std::vector<uint64_t>& extents, uint32_t type, uint64_t offset) {
    GgufBuilder file{.data = std::string(64, 'd')};
    return gguf_error(file.tensor("t", extents, type, offset).bytes());
  };
  EXPECT_EQ(with({16}, 0, 0), "");
  EXPECT_EQ(with({8}, 0, 32), "");
  EXPECT_THAT(with({17}, 0, 0), HasSubstr("'t' of 68 bytes at data offset 0 runs past the end"));
  EXPECT_THAT(with({8}, 0, 64), HasSubstr("runs past the end"));
  EXPECT_THAT(with({8}, 0, ~uint64_t{31}), HasSubstr("runs past the end"));
  EXPECT_THAT(with({8}, 0, 4), HasSubstr("offset 4, not a multiple of 32"));
  EXPECT_THAT(with({33}, 2, 0), HasSubstr("rows of 33 elements, which q4_0 blocks of 32 do not fill"));
  EXPECT_THAT(with({16, 2}, 8, 0), HasSubstr("rows of 16 elements"));
  EXPECT_THAT(with({8}, 16, 0), HasSubstr("is of type IQ2_XXS, which can't be read"));
  EXPECT_THAT(with({8}, 5, 0), HasSubstr("unknown type 5"));
  GgufBuilder overlap{.data = std::string(64, 'd')};
  EXPECT_THAT(gguf_error(overlap.tensor("a", {16}, 0, 0).tensor("b", {8}, 0, 32).bytes()),
              HasSubstr("'b' overlaps tensor 'a'"));
  GgufBuilder twice{.data = std::string(64, 'd')};
  EXPECT_THAT(gguf_error(twice.tensor("a", {8}, 0, 0).tensor("a", {8}, 0, 32).bytes()),
              HasSubstr("'a' stands twice"));
}

TEST(Gguf, EveryTruncationIsRefused) {
  GgufBuilder file{.data = std::string(64, 'd')};
  file.pair("s", GgufType::kString, gguf_string("text")).pair("k", GgufType::kU16, "ab");
  std::string bytes = file.tensor("t", {16}, 0, 0).bytes();
  ASSERT_EQ(gguf_error(bytes), "");
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_NE(gguf_error(bytes.substr(0, length)), "") << length;
}

}  // namespace
}  // namespace quaver
