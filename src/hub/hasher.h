// The two checksums by which the hub names a file's content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace quaver::hub {

// True for the lower-case hexadecimal digits of a SHA-256 (64, large files) or a SHA-1 (40, small ones).
bool is_checksum(std::string_view text);

// Computes what `checksum` should be of: plain SHA-256 for 64 digits; for 40 the SHA-1 that git gives a blob,
// which is of "blob <size>\0" and the content. Precondition: is_checksum.
class Hasher {
 public:
  Hasher(std::string_view checksum, uint64_t size_bytes);
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  void update(std::span<const std::byte> bytes);
  // Lower-case digits; ends the computation.
  std::string finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace quaver::hub
