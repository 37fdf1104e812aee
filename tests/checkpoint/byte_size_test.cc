// Sizes with decimal and binary units.
#include "checkpoint/byte_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/scratch_folder.h"

namespace quaver {
namespace {

TEST(ByteSize, DecimalAndBinaryUnitsDiffer) {
  EXPECT_EQ(parse_byte_size("5GB", "x"), 5'000'000'000u);
  EXPECT_EQ(parse_byte_size("5GiB", "x"), 5'368'709'120u);
  EXPECT_EQ(parse_byte_size("10KB", "x"), 10'000u);
  EXPECT_EQ(parse_byte_size("10 kib", "x"), 10'240u);
  EXPECT_EQ(parse_byte_size("1.5MB", "x"), 1'500'000u);
  EXPECT_EQ(parse_byte_size("4096", "x"), 4096u);
  EXPECT_EQ(parse_byte_size("2TiB", "x"), uint64_t{2} << 40);
}

TEST(ByteSize, RefusesTheRest) {
  for (const char* text :
       {"", "GB", "-5GB", "5XB", "5 GB x", "1e3", "nan", "inf", "0", "0.1B", "1e30TB", "99999999999TB"}) {
    auto caught = testing::catch_error([&] { parse_byte_size(text, "--max_shard_size"); });
    EXPECT_EQ(caught.kind, ErrorKind::kInvalidInput) << text;
    EXPECT_THAT(caught.message, ::testing::StartsWith("--max_shard_size: ")) << text;
  }
}

}  // namespace
}  // namespace quaver
