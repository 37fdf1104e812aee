// Bytes with an owner: either our own allocation or a view into something kept alive.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"

namespace quaver {

// A span of bytes and a share in what owns them. Copying shares; nothing is ever written through a Buffer
// that has been shared (const access only), so copies are safe across threads.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
      : bytes_(bytes), owner_(std::move(owner)) {}

  // 64-byte aligned and uninitialised; `writable` is valid while the returned buffer lives. A large one goes
  // back to the system when its last owner lets go.
  static Buffer allocate(size_t size_bytes, std::byte*& writable);

  template <class T>
  static Buffer copy_of(std::span<const T> values) {
    std::byte* target = nullptr;
    Buffer buffer = allocate(values.size_bytes(), target);
    std::copy_n(reinterpret_cast<const std::byte*>(values.data()), values.size_bytes(), target);
    return buffer;
  }
  template <class T>
  static Buffer copy_of(const std::vector<T>& values) {
    return copy_of(std::span<const T>(values));
  }

  std::span<const std::byte> bytes() const { return bytes_; }
  size_t size_bytes() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  // Precondition: the bytes are aligned for T and a whole number of them.
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

 private:
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

}  // namespace quaver
