#include "base/buffer.h"

#include <gtest/gtest.h>

namespace quaver {
namespace {

TEST(Buffer, BytesOfAnySizeAreAlignedAndOutliveTheirFirstOwner) {
  for (size_t size :
       {size_t{0}, size_t{1}, size_t{4095}, (size_t{256} << 10) - 1, size_t{256} << 10, size_t{3} << 20}) {
    std::byte* target = nullptr;
    Buffer share;
    {
      Buffer first = Buffer::allocate(size, target);
      std::fill_n(target, size, std::byte{7});
      share = first;
    }
    EXPECT_EQ(reinterpret_cast<uintptr_t>(target) % 64, 0u) << size;
    EXPECT_EQ(share.size_bytes(), size);
    EXPECT_TRUE(std::all_of(share.bytes().begin(), share.bytes().end(),
                            [](std::byte b) { return b == std::byte{7}; }));
  }
}

}  // namespace
}  // namespace quaver
