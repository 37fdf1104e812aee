// F060: shard sizes. No tensor is split, an oversize one stands alone, the index adds up, one file has no
// index.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/byte_size.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/scratch_folder.h"

namespace quaver {
namespace {

TensorInfo bytes_tensor(const std::string& name, int64_t bytes) {
  return {name, DType::kU8, {bytes}, static_cast<uint64_t>(bytes)};
}

TensorView filled(const TensorInfo& info) {
  return {info.dtype, info.shape, Buffer::copy_of(std::vector<uint8_t>(info.size_bytes, uint8_t{1}))};
}

std::vector<uint64_t> shard_bytes(const std::vector<TensorInfo>& tensors, std::string_view limit) {
  std::vector<uint64_t> sums;
  for (const auto& shard : plan_shards(tensors, parse_byte_size(limit, "--max_shard_size"))) {
    sums.push_back(0);
    for (const TensorInfo& info : shard) sums.back() += info.size_bytes;
  }
  return sums;
}

TEST(F060, AnOversizeTensorStandsAlone) {
  std::vector<TensorInfo> tensors = {bytes_tensor("a", 300'000), bytes_tensor("b", 5'000'000),
                                     bytes_tensor("c", 300'000)};
  EXPECT_THAT(shard_bytes(tensors, "1MB"), ::testing::ElementsAre(300'000, 5'000'000, 300'000));
  EXPECT_THAT(shard_bytes(tensors, "10KB"), ::testing::ElementsAre(300'000, 5'000'000, 300'000));
}

TEST(F060, DecimalAndBinaryLimitsDiffer) {
  std::vector<TensorInfo> tensors = {bytes_tensor("a", 600), bytes_tensor("b", 420)};
  EXPECT_THAT(shard_bytes(tensors, "1KB"), ::testing::ElementsAre(600, 420));
  EXPECT_THAT(shard_bytes(tensors, "1KiB"), ::testing::ElementsAre(1020));
  EXPECT_EQ(parse_byte_size("5GiB", "x") - parse_byte_size("5GB", "x"), 368'709'120u);
}

TEST(F060, ExactlyAtTheLimitIsOneFileWithoutIndex) {
  testing::ScratchFolder folder;
  std::vector<TensorInfo> tensors = {bytes_tensor("a", 4'000), bytes_tensor("b", 6'000)};
  auto written = write_safetensors(folder.path(), tensors, filled, {.max_shard_bytes = 10'000});
  EXPECT_THAT(written, ::testing::ElementsAre("model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "model.safetensors.index.json"));
}

TEST(F060, TheIndexAddsUpAndEveryTensorIsWhole) {
  testing::ScratchFolder folder;
  folder.write("config.json", "{}");
  std::vector<TensorInfo> tensors;
  for (int i = 0; i < 9; ++i) tensors.push_back(bytes_tensor(cat("t", i), 1'000 + 700 * (i % 3)));
  uint64_t total = 0;
  for (const auto& info : tensors) total += info.size_bytes;
  write_safetensors(folder.path(), tensors, filled, {.max_shard_bytes = 3'000});
  json index = read_json_file((folder.path() / "model.safetensors.index.json").string());
  EXPECT_EQ(index["metadata"]["total_size"], total);
  EXPECT_EQ(index["weight_map"].size(), tensors.size());
  auto checkpoint = open_hugging_face_folder(folder.path());
  for (const auto& info : tensors) {
    EXPECT_EQ(checkpoint->find(info.name)->size_bytes, info.size_bytes);
    std::string shard = index["weight_map"][info.name];
    EXPECT_EQ(checkpoint->file_of(info.name), (folder.path() / shard).string());
  }
}

}  // namespace
}  // namespace quaver
