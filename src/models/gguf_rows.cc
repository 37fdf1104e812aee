#include "models/gguf_rows.h"

#include <algorithm>

namespace quaver::models {
namespace {

// Row i of a head becomes row `place(i)` of it.
template <class Place>
Buffer moved_rows(const Buffer& rows, int64_t heads, int64_t count, const Place& place) {
  const auto bytes = rows.size_bytes() / static_cast<size_t>(count);
  const int64_t head_dim = count / heads;
  std::byte* out = nullptr;
  Buffer result = Buffer::allocate(rows.size_bytes(), out);
  for (int64_t row = 0; row < count; ++row) {
    const int64_t within = row % head_dim, to = row - within + place(within);
    std::ranges::copy(rows.bytes().subspan(static_cast<size_t>(row) * bytes, bytes),
                      out + static_cast<size_t>(to) * bytes);
  }
  return result;
}

}  // namespace

Buffer interleaved_rows(const Buffer& rows, int64_t heads, int64_t count) {
  const int64_t half = count / heads / 2;
  return moved_rows(rows, heads, count, [&](int64_t row) { return row % half * 2 + row / half; });
}

Buffer parted_rows(const Buffer& rows, int64_t heads, int64_t count) {
  const int64_t half = count / heads / 2;
  return moved_rows(rows, heads, count, [&](int64_t row) { return row / 2 + row % 2 * half; });
}

}  // namespace quaver::models
