// What is written reads back as it was; what readers would refuse is not written; files appear whole or not
// at all.
#include "checkpoint/gguf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/gguf.h"
#include "checkpoint/scratch_folder.h"

namespace quaver {
namespace {

using testing::catch_error;
using ::testing::HasSubstr;
using testing::ScratchFolder;

const std::filesystem::path kEveryValue =
    std::filesystem::path(QUAVER_TEST_DATA) / "golden/checkpoint/every_value.gguf";

TensorInfo plain_row(const std::string& name, int64_t elements) {
  return {name, DType::kF32, {elements}, static_cast<uint64_t>(elements) * 4};
}
TensorView sevens(const TensorInfo& info) {
  return {info.dtype, info.shape, Buffer::copy_of(std::vector<uint8_t>(info.size_bytes, uint8_t{7}))};
}

TEST(GgufWriter, EveryValueAndTensorReadsBack) {
  const GgufFile file = GgufFile::open(kEveryValue);
  GgufMetadata metadata;
  for (const auto& [key, value] : file.metadata()) metadata.add_value(key, value);
  std::vector<TensorInfo> infos;
  for (const GgufEntry& entry : file.entries()) infos.push_back(entry.info);
  ASSERT_GE(infos.size(), 4u);
  ScratchFolder folder;
  const auto path = folder.path() / "out.gguf";
  write_gguf(path, metadata, infos, [&](const TensorInfo& info) { return file.read(info.name); });
  const GgufFile back = GgufFile::open(path);
  ASSERT_EQ(back.metadata().size(), file.metadata().size());
  for (const auto& [key, value] : file.metadata()) {
    const GgufValue* again = back.find(key);
    ASSERT_NE(again, nullptr) << key;
    EXPECT_EQ(again->type, value.type);
    EXPECT_EQ(again->element, value.element);
    EXPECT_EQ(again->strings, value.strings);
    EXPECT_TRUE(std::ranges::equal(again->raw, value.raw)) << key;
  }
  for (const TensorInfo& info : infos) {
    EXPECT_EQ(back.find_tensor(info.name)->info.shape, info.shape);
    EXPECT_TRUE(std::ranges::equal(back.read(info.name).data.bytes(), file.read(info.name).data.bytes()));
    EXPECT_EQ(back.find_tensor(info.name)->offset % kGgufAlignment, 0u);
  }
}

TEST(GgufWriter, WhatReadersWouldRefuse) {
  ScratchFolder folder;
  auto refused = [&](std::vector<TensorInfo> infos) {
    const auto caught =
        catch_error([&] { write_gguf(folder.path() / "x.gguf", GgufMetadata(), infos, sevens); });
    EXPECT_EQ(caught.kind, ErrorKind::kInvalidInput);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    return caught.message;
  };
  EXPECT_THAT(refused({plain_row("a", 2), plain_row("a", 3)}), HasSubstr("'a' can't be written twice"));
  EXPECT_THAT(refused({plain_row(std::string(64, 'n'), 2)}), HasSubstr("64 bytes, expected 1 to 63"));
  EXPECT_THAT(refused({plain_row("a", 0)}), HasSubstr("shape is [0]"));
  EXPECT_THAT(refused({{"a", DType::kF32, {1, 1, 1, 1, 1}, 4}}), HasSubstr("5 dimensions"));
  EXPECT_THAT(refused({{"a", DType::kQ4_K, {2, 128}, 144}}), HasSubstr("rows of 128 don't fill q4_k"));
  EXPECT_THAT(refused({{"a", DType::kU16, {2}, 4}}), HasSubstr("GGUF has no type u16"));
  EXPECT_THAT(refused({{"a", DType::kF32, {3, 2}, 4}}), HasSubstr("announced were 4"));
  EXPECT_THAT(refused({{"a", DType::kF32, {int64_t{1} << 31, int64_t{1} << 31}, 4}}), HasSubstr("overflows"));
  GgufMetadata metadata;
  metadata.add_bool("k", true);
  EXPECT_THAT(catch_error([&] { metadata.add_u32("k", 1); }).message, HasSubstr("can't be written twice"));
  EXPECT_THAT(catch_error([&] { metadata.add_u32("", 1); }).message, HasSubstr("0 bytes"));
}

TEST(GgufWriter, AFailedCheckOrTensorLeavesNothing) {
  ScratchFolder folder;
  const auto path = folder.path() / "x.gguf";
  std::vector<TensorInfo> infos = {plain_row("a", 5)};
  std::filesystem::path seen;
  EXPECT_THROW(write_gguf(path, GgufMetadata(), infos, sevens,
                          [&](const std::filesystem::path& partial) {
                            seen = partial;
                            EXPECT_EQ(GgufFile::open(partial).entries().size(), 1u);
                            fail(ErrorKind::kInternal, "not good");
                          }),
               Error);
  EXPECT_NE(seen, path);
  EXPECT_THROW(write_gguf(path, GgufMetadata(), infos,
                          [](const TensorInfo& info) { return sevens(plain_row(info.name, 4)); }),
               Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  write_gguf(path, GgufMetadata(), infos, sevens);
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(GgufWriter, AFolderThatCantBeWritten) {
  std::vector<TensorInfo> infos = {plain_row("a", 1)};
  const auto caught = catch_error([&] { write_gguf("/dev/full/x.gguf", GgufMetadata(), infos, sevens); });
  EXPECT_EQ(caught.kind, ErrorKind::kBadFile);
  EXPECT_THAT(caught.message, HasSubstr("/dev/full/x.gguf"));
}

}  // namespace
}  // namespace quaver
