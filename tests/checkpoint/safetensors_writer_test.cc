// Writing: the same bytes as the safetensors library, shard limits, and refusal of what could not be read
// back.
#include "checkpoint/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/scratch_folder.h"

namespace quaver {
namespace {

using testing::catch_error;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ScratchFolder;

TensorInfo f32(const std::string& name, int64_t elements) {
  return {name, DType::kF32, {elements}, static_cast<uint64_t>(elements) * 4};
}
TensorView zeros(const TensorInfo& info) {
  return {info.dtype, info.shape, Buffer::copy_of(std::vector<uint8_t>(info.size_bytes, uint8_t{7}))};
}
std::string bytes_of(const std::filesystem::path& path) { return read_text_file(path, size_t{1} << 30); }

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(SafetensorsWriter, SameBytesAsTheSafetensorsLibraryForEveryDtype) {
  std::filesystem::path golden =
      std::filesystem::path(QUAVER_TEST_DATA) / "golden/checkpoint/every_dtype.safetensors";
  auto file = SafetensorsFile::open(golden);
  ASSERT_EQ(file.entries().size(), 23u);
  std::vector<TensorInfo> infos;
  for (auto it = file.entries().rbegin(); it != file.entries().rend(); ++it) infos.push_back(it->info);
  ScratchFolder folder;
  write_safetensors_file(
      folder.path() / "out.safetensors", infos, [&](const TensorInfo& info) { return file.read(info.name); },
      file.metadata());
  EXPECT_EQ(bytes_of(folder.path() / "out.safetensors"), bytes_of(golden));
}

TEST(SafetensorsWriter, EveryDtypeReadsTheBytesThatTheLibraryWrote) {
  auto file = SafetensorsFile::open(std::filesystem::path(QUAVER_TEST_DATA) /
                                    "golden/checkpoint/every_dtype.safetensors");
  constexpr std::array kOrder = {
      "BOOL",    "U8",      "I8",          "U16",         "I16", "U32",  "I32", "U64", "I64", "F8_E4M3",
      "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F16", "BF16", "F32", "F64", "C64", "F4"};
  for (size_t t = 0; t < kOrder.size(); ++t) {
    TensorView view = file.read(cat("t.", kOrder[t]));
    EXPECT_EQ(dtype_info(view.dtype).safetensors_name, kOrder[t]);
    const auto bytes = view.data.bytes();
    for (size_t i = 0; i < bytes.size(); ++i)
      ASSERT_EQ(std::to_integer<size_t>(bytes[i]), (17 * t + 31 * i) % 256) << kOrder[t] << " byte " << i;
  }
}

TEST(SafetensorsWriter, OneFileNeedsNoIndex) {
  ScratchFolder folder;
  auto written = write_safetensors(folder.path(), {f32("b", 2), f32("a", 2)}, zeros, {.max_shard_bytes = 16});
  EXPECT_THAT(written, ElementsAre("model.safetensors"));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("model.safetensors"));
}

TEST(SafetensorsWriter, ShardsKeepTheLimitAndTheIndexAddsUp) {
  ScratchFolder folder;
  folder.write("config.json", "{}");
  std::vector<TensorInfo> infos = {f32("a", 2), f32("b", 2), f32("c", 9),
                                   f32("d", 1), f32("e", 3), f32("f", 1)};
  write_safetensors(folder.path(), infos, zeros, {.max_shard_bytes = 16});
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre("config.json", "model-00001-of-00004.safetensors",
                          "model-00002-of-00004.safetensors", "model-00003-of-00004.safetensors",
                          "model-00004-of-00004.safetensors", "model.safetensors.index.json"));
  json index = read_json_file((folder.path() / "model.safetensors.index.json").string());
  EXPECT_EQ(index["metadata"]["total_size"], 18 * 4);
  EXPECT_EQ(index["weight_map"]["c"], "model-00002-of-00004.safetensors");
  auto checkpoint = open_hugging_face_folder(folder.path());
  EXPECT_EQ(checkpoint->tensors().size(), 6u);
}

TEST(SafetensorsWriter, PlansShards) {
  auto sizes = [](uint64_t limit) {
    std::vector<size_t> counts;
    for (const auto& shard : plan_shards({f32("a", 1), f32("b", 1), f32("c", 1), f32("d", 5)}, limit))
      counts.push_back(shard.size());
    return counts;
  };
  EXPECT_THAT(sizes(32), ElementsAre(4));     // exactly at the limit
  EXPECT_THAT(sizes(31), ElementsAre(3, 1));  // one byte below it
  EXPECT_THAT(sizes(12), ElementsAre(3, 1));  // "d" alone is past it and is not split
  EXPECT_THAT(sizes(8), ElementsAre(2, 1, 1));
  EXPECT_THAT(sizes(1), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(catch_error([&] { sizes(0); }).message, HasSubstr("must be positive"));
}

TEST(SafetensorsWriter, ReplacesShardsOfAnEarlierRunAndNothingElse) {
  ScratchFolder folder;
  for (const char* name :
       {"model-00001-of-00009.safetensors", "model.safetensors.index.json", "model.safetensors.partial",
        "model-best.safetensors", "modeling.py", "other.safetensors"})
    folder.write(name, "old");
  write_safetensors(folder.path(), {f32("a", 1)}, zeros);
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre("model-best.safetensors", "model.safetensors", "modeling.py", "other.safetensors"));
}

TEST(SafetensorsWriter, HeaderIsAMultipleOfEight) {
  ScratchFolder folder;
  for (int length = 1; length <= 8; ++length) {
    auto path = folder.path() / "x.safetensors";
    write_safetensors_file(path, {f32(std::string(static_cast<size_t>(length), 'n'), 1)}, zeros, {});
    EXPECT_EQ(SafetensorsFile::open(path).entries()[0].offset % 8, 0u);
  }
}

TEST(SafetensorsWriter, RefusesWhatTheReaderRefuses) {
  ScratchFolder folder;
  auto refused = [&](std::vector<TensorInfo> infos, const TensorSource& source = zeros) {
    auto caught =
        catch_error([&] { write_safetensors_file(folder.path() / "x.safetensors", infos, source, {}); });
    EXPECT_TRUE(names_in(folder.path()).empty()) << "left something behind";
    return caught.message;
  };
  EXPECT_THAT(refused({}), HasSubstr("without tensors"));
  EXPECT_THAT(refused({f32("a", 1), f32("a", 2)}), HasSubstr("'a' can't be written twice"));
  EXPECT_THAT(refused({f32("__metadata__", 1)}), HasSubstr("reserved"));
  EXPECT_THAT(refused({f32("\xff", 1)}), HasSubstr("'\\xff' is not UTF-8"));
  EXPECT_THAT(refused({{"q", DType::kQ4_0, {32}, 18}}), HasSubstr("no dtype q4_0"));
  EXPECT_THAT(refused({{"a", DType::kF32, {3}, 8}}), HasSubstr("takes 12 bytes, announced were 8"));
  EXPECT_THAT(refused({{"a", DType::kF32, {-1}, 4}}), HasSubstr("overflows"));
  EXPECT_THAT(refused({{"a", DType::kU8, std::vector<int64_t>(33, 1), 1}}), HasSubstr("33 dimensions"));
  EXPECT_THAT(refused({f32("a", 2)}, [](const TensorInfo&) { return zeros(f32("a", 1)); }),
              HasSubstr("announced as f32 [2]"));
  EXPECT_THAT(refused({f32(std::string(100'000'001, 'n'), 1)}), HasSubstr("more than the 100000000"));
}

TEST(SafetensorsWriter, LargestHeaderIsReadBack) {
  ScratchFolder folder;
  auto path = folder.path() / "x.safetensors";
  std::string rest = R"({"":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  write_safetensors_file(path, {f32(std::string(100'000'000 - rest.size(), 'n'), 1)}, zeros, {});
  EXPECT_EQ(SafetensorsFile::open(path).entries().size(), 1u);
}

TEST(SafetensorsWriter, FullDiskIsAnErrorThatNamesTheFile) {
  auto caught =
      catch_error([&] { write_safetensors_file("/dev/full/x.safetensors", {f32("a", 1)}, zeros, {}); });
  EXPECT_EQ(caught.kind, ErrorKind::kBadFile);
  EXPECT_THAT(caught.message, HasSubstr("/dev/full/x.safetensors"));
}

}  // namespace
}  // namespace quaver
