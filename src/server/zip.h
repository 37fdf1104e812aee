// ZIP archives of files that are compressed already: stored, not deflated (PKWARE's APPNOTE 6.3,
// sections 4.3.7, 4.3.12 and 4.3.16).
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace quaver::server {

struct ZipEntry {
  std::string name;  // ASCII
  std::span<const std::byte> data;
};

// Dates are the format's first, 1980-01-01, so that equal pictures make equal archives. Throws
// Error(kInvalidInput) beyond the format's 65535 entries and 4 GiB.
std::string zip_archive(std::span<const ZipEntry> entries);

}  // namespace quaver::server
