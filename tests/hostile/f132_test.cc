// F132: a shard shorter than its header promises is refused; one whose tail was never written is reported.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/file_holes.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/scratch_folder.h"

namespace quaver {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kElements = 256 * 512;

std::filesystem::path write_model(const testing::ScratchFolder& folder) {
  folder.write("config.json", "{}");
  std::vector<float> ones(kElements, 1.0f);
  TensorView view{DType::kF32, {256, 512}, Buffer::copy_of(ones)};
  std::vector<TensorInfo> tensors;
  for (const char* name : {"a.q_proj", "b.gate_proj", "c.down_proj"})
    tensors.push_back({name, DType::kF32, {256, 512}, kElements * 4});
  write_safetensors(folder.path(), tensors, [&](const TensorInfo&) { return view; });
  return folder.path() / "model.safetensors";
}

TEST(F132, ATruncatedShardIsRefusedAtTheStart) {
  testing::ScratchFolder folder;
  auto path = write_model(folder);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4096);
  auto caught = testing::catch_error([&] { open_hugging_face_folder(folder.path()); });
  EXPECT_EQ(caught.kind, ErrorKind::kBadFile);
  EXPECT_THAT(caught.message,
              HasSubstr(cat(path.string(), ": tensor 'c.down_proj': ends at byte 1572864 of the data")));
}

std::vector<TensorRange> ranges_of(const SafetensorsFile& file) {
  std::vector<TensorRange> ranges;
  for (const auto& entry : file.entries())
    ranges.push_back({entry.info.name, entry.offset, entry.info.size_bytes});
  return ranges;
}

TEST(F132, AHoleOfTheRightLengthIsReported) {
  testing::ScratchFolder folder;
  auto path = write_model(folder);
  auto size = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, size - 262'144);
  std::filesystem::resize_file(path, size);  // stretched again: the tail is a hole
  int fd = ::open(path.c_str(), O_RDONLY);
  bool sees_holes = ::lseek(fd, 0, SEEK_HOLE) < static_cast<off_t>(size);
  ::close(fd);
  ::testing::internal::CaptureStderr();
  auto checkpoint = open_hugging_face_folder(folder.path());
  std::string log = ::testing::internal::GetCapturedStderr();
  if (!sees_holes) return;  // this file system keeps no holes, so there is nothing to see
  EXPECT_THAT(log, HasSubstr("'c.down_proj'"));
  EXPECT_THAT(log, HasSubstr("never written and read as zeros"));
  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_THAT(tensors_in_holes(path, ranges_of(file)), ::testing::ElementsAre("c.down_proj"));
}

TEST(F132, AWholeFileIsNotReported) {
  testing::ScratchFolder folder;
  auto path = write_model(folder);
  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_TRUE(tensors_in_holes(path, ranges_of(file)).empty());
}

}  // namespace
}  // namespace quaver
