// F062: hostile or cut-off safetensors headers end in one line that names the file, soon and without memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/scratch_folder.h"
#include "hostile/allocation_guard.h"

namespace quaver {
namespace {

using testing::catch_error;
using ::testing::HasSubstr;
using testing::little_endian;
using testing::safetensors_bytes;

struct Case {
  const char* name;
  std::string bytes;
  uint64_t sparse_size;  // the file is stretched to this; 0 leaves it
  const char* expected;
};

std::vector<Case> cases() {
  return {
      {"zero bytes", "", 0, "is empty (0 bytes)"},
      {"seven bytes", "1234567", 0, "is 7 bytes long"},
      {"length 2^64-1", little_endian(~uint64_t{0}) + "{}", 0, "header length 18446744073709551615"},
      {"length one past the end", little_endian(3) + "{}", 0,
       "runs past the end of the file, which has 2 bytes"},
      {"length 100,000,001", little_endian(100'000'001) + "{}", 100'000'100,
       "more than the 100000000 allowed"},
      {"not JSON", safetensors_bytes("{not json}", ""), 0, "not valid JSON at byte"},
      {"JSON array", safetensors_bytes("[1,2,3]", ""), 0, "does not begin with '{'"},
      {"nested objects", safetensors_bytes("{\"a\":" + std::string(1'000'000, '{'), ""), 0,
       "not valid JSON at byte 7"},
      {"nested arrays", safetensors_bytes("{\"a\":" + std::string(1'000'000, '['), ""), 0, "'a' is an array"},
      {"brackets", safetensors_bytes(std::string(1'000'000, '['), ""), 0, "does not begin with '{'"},
      {"no tensors", safetensors_bytes("{}", ""), 0, "holds no tensors"},
  };
}

TEST(F062, EveryCaseEndsInOneLineThatNamesTheFile) {
  for (const Case& one : cases()) {
    testing::ScratchFolder folder;
    folder.write("config.json", "{}");
    auto path = folder.write("model.safetensors", one.bytes);
    if (one.sparse_size != 0) std::filesystem::resize_file(path, one.sparse_size);
    auto size = std::filesystem::file_size(path);
    testing::reset_peak_allocated_bytes();
    auto start = std::chrono::steady_clock::now();
    auto caught = catch_error([&] { open_hugging_face_folder(folder.path()); });
    auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT_EQ(caught.kind, ErrorKind::kBadFile) << one.name;
    EXPECT_THAT(caught.message, HasSubstr(path.string())) << one.name;
    EXPECT_THAT(caught.message, HasSubstr(one.expected)) << one.name;
    EXPECT_EQ(caught.message.find('\n'), std::string::npos) << one.name;
    EXPECT_LT(seconds, 0.1) << one.name;
    EXPECT_LE(testing::peak_allocated_bytes(), size + 32'768) << one.name;  // messages, paths and config.json
  }
}

TEST(F062, TheWriterRefusesWhatTheReaderRefuses) {
  testing::ScratchFolder folder;
  auto write = [&](const std::vector<TensorInfo>& tensors) {
    return catch_error([&] {
             write_safetensors(folder.path(), tensors, [](const TensorInfo&) { return TensorView{}; });
           })
        .message;
  };
  EXPECT_THAT(write({}), HasSubstr("without tensors"));
  std::vector<TensorInfo> many;
  for (int i = 0; i < 100; ++i) many.push_back({std::string(1'100'000, 'n') + cat(i), DType::kU8, {0}, 0});
  EXPECT_THAT(write(many), HasSubstr("use smaller shards"));
}

TEST(F062, ALargeHonestHeaderIsReadBack) {
  testing::ScratchFolder folder;
  std::vector<TensorInfo> many;
  for (int i = 0; i < 100'000; ++i) many.push_back({cat("model.layers.", i, ".weight"), DType::kU8, {1}, 1});
  std::vector<uint8_t> one = {7};
  TensorView view{DType::kU8, {1}, Buffer::copy_of(one)};
  write_safetensors(folder.path(), many, [&](const TensorInfo&) { return view; });
  EXPECT_EQ(SafetensorsFile::open(folder.path() / "model.safetensors").entries().size(), many.size());
}

}  // namespace
}  // namespace quaver
