// A download on its way: the bytes so far, with their checksum, in a file that a later run continues.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "hub/hasher.h"

namespace quaver::hub {

// Opens "<blob>.incomplete" and takes up what it holds, reading it once for the checksum. Destroyed early it
// leaves all bytes for the next run. Errors (a full disk, say) are Error(kBadFile) naming the file.
// Precondition: the caller holds the blob's lock.
class IncompleteFile {
 public:
  // More bytes than `size_bytes` can't be of this file and are dropped.
  IncompleteFile(std::filesystem::path blob, std::string checksum, uint64_t size_bytes);
  ~IncompleteFile();
  IncompleteFile(const IncompleteFile&) = delete;
  IncompleteFile& operator=(const IncompleteFile&) = delete;

  uint64_t length() const { return length_; }
  void append(std::span<const std::byte> bytes);
  void restart();
  // Of all bytes. Only restart, discard or commit may follow.
  std::string checksum();
  // Deletes the file; nothing may follow.
  void discard();
  // Flushes to the disk and gives it its final name.
  void commit();

 private:
  std::filesystem::path blob_, path_;
  std::string expected_;
  uint64_t size_bytes_, length_ = 0;
  Hasher hasher_;
  int fd_ = -1;
};

}  // namespace quaver::hub
