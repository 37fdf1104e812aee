#include "checkpoint/contained_path.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "checkpoint/printable.h"

namespace quaver {
namespace {

namespace fs = std::filesystem;

bool is_inside(const fs::path& path, const fs::path& folder) {
  auto [end, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end() && rest != path.end();
}

// .../models--org--name/snapshots/<revision>[/component] -> .../models--org--name/blobs
std::optional<fs::path> blobs_of_cache(const fs::path& real_folder) {
  for (fs::path at = real_folder; at.has_relative_path(); at = at.parent_path()) {
    fs::path snapshots = at.parent_path();
    if (snapshots.filename() != "snapshots") continue;
    if (!snapshots.parent_path().filename().string().starts_with("models--")) continue;
    std::error_code none;
    fs::path blobs = fs::canonical(snapshots.parent_path() / "blobs", none);
    if (!none) return blobs;
  }
  return std::nullopt;
}

}  // namespace

void check_contained_name(std::string_view name, std::string_view what) {
  require(!name.empty(), ErrorKind::kBadFile, what, ": names an empty file name");
  require(name.find('\0') == name.npos, ErrorKind::kBadFile, what, ": file name ", printable(name),
          " holds a zero byte");
  fs::path relative(name);
  require(relative.is_relative(), ErrorKind::kBadFile, what, ": file name ", printable(name),
          " is absolute, expected one inside the model folder");
  for (const fs::path& part : relative)
    require(part != "..", ErrorKind::kBadFile, what, ": file name ", printable(name),
            " leaves the model folder");
}

fs::path contained_path(const fs::path& folder, std::string_view name, std::string_view what) {
  check_contained_name(name, what);
  fs::path joined = folder / name;
  std::error_code error;
  fs::path real = fs::canonical(joined, error);
  require(!error, ErrorKind::kNotFound, joined.string(), ": does not exist (named by ", what, ")");
  fs::path real_folder = fs::canonical(folder, error);
  require(!error, ErrorKind::kNotFound, folder.string(), ": does not exist");
  if (is_inside(real, real_folder)) return joined;
  auto blobs = blobs_of_cache(real_folder);
  require(blobs && is_inside(real, *blobs), ErrorKind::kBadFile, joined.string(),
          ": is a link to a place outside the model folder, which only the Hugging Face cache may do");
  return joined;
}

}  // namespace quaver
