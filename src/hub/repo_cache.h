// One repository's folder in the cache that huggingface_hub reads and writes too:
//   models--org--name/blobs/<checksum>               contents
//   models--org--name/snapshots/<commit>/<path>      links to blobs, in the repository's own layout
//   models--org--name/refs/<revision>                the commit of a branch or tag
//   .locks/models--org--name/<checksum>.lock         held while a blob is downloaded
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "hub/repo_id.h"

namespace quaver::hub {

class RepoCache {
 public:
  RepoCache(std::filesystem::path cache, std::string_view repo_id);

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path blob(std::string_view checksum) const { return folder_ / "blobs" / checksum; }
  std::filesystem::path snapshot(std::string_view commit) const { return folder_ / "snapshots" / commit; }
  std::filesystem::path lock(std::string_view checksum) const;

  // The commit of a branch, a tag or a commit; nothing when the cache does not know it.
  std::optional<std::string> commit_of(std::string_view revision) const;
  void write_ref(std::string_view revision, std::string_view commit) const;

  // Makes snapshots/<commit>/<path> a relative link to the blob. What stands there already and is right
  // stays; a reader sees the old link or the new one. Precondition: `path` was checked by parse_listing.
  void link(std::string_view commit, std::string_view path, std::string_view checksum) const;

 private:
  std::filesystem::path cache_, folder_;
};

// The snapshot folder, or the one file of it, that a name means; nothing when the cache lacks it. Looks at
// the disk alone. `whole_model` asks for a snapshot from which a model can be loaded: config.json, all shards
// of its weights and a tokenizer, or a .gguf; other programs leave snapshots that hold some files only.
std::optional<std::filesystem::path> find_cached(const std::filesystem::path& cache, const RepoName& name,
                                                 bool whole_model);

}  // namespace quaver::hub
