#include "hub/listing.h"

#include <algorithm>

#include "checkpoint/contained_path.h"
#include "checkpoint/printable.h"
#include "hub/hasher.h"
#include "hub/repo_id.h"

namespace quaver::hub {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 50;

std::string checksum_of(const json& entry, const json& large, const std::string& what) {
  std::string checksum = large.is_object() ? json_value<std::string>(large, "sha256", "", what)
                                           : json_value<std::string>(entry, "blobId", "", what);
  require(checksum.empty() || is_checksum(checksum), ErrorKind::kBadFile, what, ": checksum ",
          printable(checksum), " is not one of 40 or 64 hexadecimal digits");
  return checksum;
}

// A large file's own "size" may be that of the pointer which git keeps in its place.
std::optional<uint64_t> size_of(const json& entry, const json& large, const std::string& what) {
  const json& holder = large.is_object() ? large : entry;
  if (!holder.contains("size") || holder.at("size").is_null()) return std::nullopt;
  const json& size = holder.at("size");
  bool in_range =
      size.is_number_integer() && size.get<int64_t>() >= 0 && size.get<int64_t>() <= kMaxFileBytes;
  require(in_range, ErrorKind::kBadFile, what, ": size must be a whole number up to ", kMaxFileBytes,
          ", got ", size.dump().substr(0, 40));
  return size.get<uint64_t>();
}

RepoFile parse_file(const json& entry, std::string_view what) {
  require(entry.is_object(), ErrorKind::kBadFile, what, ": an entry of 'siblings' is not an object");
  RepoFile file{.path = json_required<std::string>(entry, "rfilename", what)};
  check_contained_name(file.path, what);
  std::string where = cat(what, ": file ", printable(file.path));
  json large = json_value<json>(entry, "lfs", nullptr, where);
  file.checksum = checksum_of(entry, large, where);
  file.size_bytes = size_of(entry, large, where);
  return file;
}

void check_no_clash(const std::vector<RepoFile>& files, std::string_view what) {
  for (size_t i = 0; i + 1 < files.size(); ++i) {
    require(files[i].path != files[i + 1].path, ErrorKind::kBadFile, what, ": file ",
            printable(files[i].path), " stands there twice");
    auto below =
        std::lower_bound(files.begin(), files.end(), files[i].path + "/",
                         [](const RepoFile& file, const std::string& path) { return file.path < path; });
    require(below == files.end() || !below->path.starts_with(files[i].path + "/"), ErrorKind::kBadFile, what,
            ": ", printable(files[i].path), " is a file and a folder");
  }
}

}  // namespace

Listing parse_listing(const json& document, std::string_view what) {
  require(document.is_object(), ErrorKind::kBadFile, what, ": is not a JSON object");
  Listing listing{.commit = json_required<std::string>(document, "sha", what)};
  require(is_commit(listing.commit), ErrorKind::kBadFile, what, ": commit ", printable(listing.commit),
          " is not one of 40 hexadecimal digits");
  json siblings = json_value<json>(document, "siblings", json::array(), what);
  require(siblings.is_array(), ErrorKind::kBadFile, what, ": 'siblings' is not a list");
  for (const json& entry : siblings) listing.files.push_back(parse_file(entry, what));
  std::sort(listing.files.begin(), listing.files.end(),
            [](const RepoFile& a, const RepoFile& b) { return a.path < b.path; });
  check_no_clash(listing.files, what);
  return listing;
}

}  // namespace quaver::hub
