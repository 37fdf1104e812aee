#include "hub/repo_cache.h"

#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/contained_path.h"
#include "checkpoint/weight_files.h"

namespace quaver::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxRefBytes = 256;

std::string folder_name(std::string_view repo_id) {
  std::string name = "models--";
  for (char c : repo_id) name += c == '/' ? "--" : std::string(1, c);
  return name;
}

void make_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  require(!error, ErrorKind::kBadFile, folder.string(), ": can't be created: ", error.message());
}

bool has_gguf(const fs::path& snapshot) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(snapshot, none))
    if (entry.path().extension() == ".gguf" && entry.exists(none)) return true;
  return false;
}

bool has_weights(const fs::path& snapshot) {
  try {
    WeightFiles files = find_weight_files(snapshot);
    return std::all_of(files.names.begin(), files.names.end(), [&](const std::string& name) {
      std::error_code none;
      return fs::exists(snapshot / name, none);
    });
  } catch (const Error&) {
    return false;
  }
}

bool has_whole_model(const fs::path& snapshot) {
  if (!fs::exists(snapshot / "config.json")) return has_gguf(snapshot);
  bool tokenizer = fs::exists(snapshot / "tokenizer.json") || fs::exists(snapshot / "tokenizer.model");
  return tokenizer && has_weights(snapshot);
}

}  // namespace

RepoCache::RepoCache(fs::path cache, std::string_view repo_id)
    : cache_(std::move(cache)), folder_(cache_ / folder_name(repo_id)) {}

fs::path RepoCache::lock(std::string_view checksum) const {
  return cache_ / ".locks" / folder_.filename() / cat(checksum, ".lock");
}

std::optional<std::string> RepoCache::commit_of(std::string_view revision) const {
  std::error_code none;
  if (is_commit(revision)) return std::string(revision);
  fs::path ref = folder_ / "refs" / revision;
  if (!fs::is_regular_file(ref, none)) return std::nullopt;
  std::string commit = read_text_file(ref, kMaxRefBytes);
  while (commit.ends_with('\n')) commit.pop_back();
  require(is_commit(commit), ErrorKind::kBadFile, ref.string(), ": does not hold a commit");
  return commit;
}

void RepoCache::write_ref(std::string_view revision, std::string_view commit) const {
  if (revision == commit) return;
  fs::path ref = folder_ / "refs" / revision;
  std::error_code none;
  if (fs::is_regular_file(ref, none) && read_text_file(ref, kMaxRefBytes) == commit) return;
  make_folders(ref.parent_path());
  write_file_atomically(ref, commit);
}

void RepoCache::link(std::string_view commit, std::string_view path, std::string_view checksum) const {
  fs::path place = snapshot(commit) / path;
  make_folders(place.parent_path());
  fs::path target = blob(checksum).lexically_relative(place.parent_path());
  std::error_code error;
  if (fs::read_symlink(place, error) == target) return;
  fs::path temporary = place;
  temporary += cat(".", ::getpid(), ".tmp");
  fs::remove(temporary, error);
  fs::create_symlink(target, temporary, error);
  require(!error, ErrorKind::kBadFile, place.string(), ": can't be linked to ", target.string(), ": ",
          error.message());
  fs::rename(temporary, place, error);
  require(!error, ErrorKind::kBadFile, place.string(), ": can't be replaced: ", error.message());
}

std::optional<fs::path> find_cached(const fs::path& cache, const RepoName& name, bool whole_model) {
  RepoCache repo(cache, name.id);
  auto commit = repo.commit_of(name.revision);
  if (!commit) return std::nullopt;
  fs::path snapshot = repo.snapshot(*commit);
  std::error_code none;
  if (!fs::is_directory(snapshot, none)) return std::nullopt;
  if (!name.file.empty()) {
    check_contained_name(name.file, cat(name.id, ":", name.file));
    fs::path file = snapshot / name.file;
    return fs::exists(file, none) ? std::optional(file) : std::nullopt;
  }
  return whole_model && !has_whole_model(snapshot) ? std::nullopt : std::optional(snapshot);
}

}  // namespace quaver::hub
