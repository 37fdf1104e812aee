// The files of one revision of a repository, as the hub lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace quaver::hub {

struct RepoFile {
  std::string path;                    // relative, slashes between folders; never leaves the folder
  std::optional<uint64_t> size_bytes;  // empty: the listing does not say
  std::string checksum;                // see Hasher; empty: the listing does not say
};

struct Listing {
  std::string commit;           // 40 hexadecimal digits
  std::vector<RepoFile> files;  // sorted by path
};

// Reads the answer to GET /api/models/<id>/revision/<revision>?blobs=true. Everything in it is hostile until
// proved otherwise: paths that are absolute or hold "..", two equal paths, a path that is both a file and a
// folder, commits and checksums that are not hexadecimal, and sizes out of range are Error(kBadFile)
// beginning with `what`.
Listing parse_listing(const json& document, std::string_view what);

}  // namespace quaver::hub
