// Codes of every width and value at every position survive packing, and nothing beyond the stream is touched.
#include "formats/bitstream.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace quaver {
namespace {

class Bitstream : public testing::TestWithParam<int> {};

TEST_P(Bitstream, PackAndUnpackAreInverse) {
  const int bits = GetParam();
  std::mt19937 generator(static_cast<unsigned>(bits));
  for (int64_t count = 0; count <= 70; ++count) {
    std::vector<uint8_t> codes(static_cast<size_t>(count));
    for (auto& code : codes) code = static_cast<uint8_t>(generator() & ((1u << bits) - 1));
    std::vector<std::byte> stream(static_cast<size_t>(bitstream_bytes(count, bits)) + 1, std::byte{0xA5});
    pack_codes(codes.data(), bits, count, stream.data());
    EXPECT_EQ(stream.back(), std::byte{0xA5}) << count;
    std::vector<uint8_t> back(codes.size());
    unpack_codes(stream.data(), bits, count, back.data());
    EXPECT_EQ(back, codes);
    for (int64_t i = 0; i < count; ++i)
      ASSERT_EQ(read_code(stream.data(), i, bits), codes[static_cast<size_t>(i)]) << count << " " << i;
  }
}

TEST_P(Bitstream, FirstCodeHasTheLowestBits) {
  const int bits = GetParam();
  const uint8_t codes[2] = {1, 0};
  std::byte stream[2] = {};
  pack_codes(codes, bits, 2, stream);
  EXPECT_EQ(stream[0], std::byte{1});
}

TEST_P(Bitstream, UnusedBitsAreZero) {
  const int bits = GetParam();
  const std::vector<uint8_t> codes(3, static_cast<uint8_t>((1u << bits) - 1));
  std::vector<std::byte> stream(static_cast<size_t>(bitstream_bytes(3, bits)), std::byte{0xFF});
  pack_codes(codes.data(), bits, 3, stream.data());
  const int used = 3 * bits % 8;
  if (used != 0) {
    EXPECT_EQ(stream.back(), std::byte((1u << used) - 1));
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, Bitstream, testing::Range(2, 9));

// The published example: 0..7 over and over in three bits fills three words like this.
TEST(Bitstream, ThreeBitWordsAreThoseOfTheSpecification) {
  std::vector<uint8_t> codes(32);
  for (size_t i = 0; i < 32; ++i) codes[i] = i % 8;
  uint32_t words[3] = {};
  pack_codes(codes.data(), 3, 32, reinterpret_cast<std::byte*>(words));
  EXPECT_EQ(words[0], 0x88FAC688u);
  EXPECT_EQ(words[1], 0xC688FAC6u);
  EXPECT_EQ(words[2], 0xFAC688FAu);
}

}  // namespace
}  // namespace quaver
