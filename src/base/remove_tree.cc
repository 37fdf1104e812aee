#include "base/remove_tree.h"

#include <ftw.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace quaver {
namespace {

constexpr int kOpenFolders = 16;

int remove_entry(const char* path, const struct stat*, int, struct FTW*) { return std::remove(path); }

}  // namespace

void remove_tree(const std::filesystem::path& path) {
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT && !std::filesystem::is_symlink(path)) return;
  int status = ::nftw(path.c_str(), remove_entry, kOpenFolders, FTW_DEPTH | FTW_PHYS);
  require(status == 0, ErrorKind::kBadFile, path.string(), ": can't be removed: ", std::strerror(errno));
}

}  // namespace quaver
