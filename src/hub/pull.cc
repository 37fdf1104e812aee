#include "hub/pull.h"

#include <cstdio>

#include "base/error.h"
#include "checkpoint/printable.h"
#include "hub/client.h"
#include "hub/download.h"
#include "hub/repo_cache.h"

namespace quaver::hub {
namespace {

namespace fs = std::filesystem;

std::string gigabytes(uint64_t bytes) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3f GB", static_cast<double>(bytes) / 1e9);
  return text;
}

PullResult from_cache(const PullOptions& options) {
  auto path = find_cached(options.settings.cache, options.repo, false);
  require(path.has_value(), ErrorKind::kNotFound, options.repo.id, " (revision ", options.repo.revision, ")",
          options.repo.file.empty() ? "" : cat(", file ", printable(options.repo.file)),
          ": is not in the cache ", options.settings.cache.string(),
          ", and HF_HUB_OFFLINE forbids asking the hub");
  return {.path = *path};
}

PullPlan make_plan(Client& client, const RepoCache& cache, const PullOptions& options) {
  Listing listing = client.list_files();
  PullPlan plan{.commit = listing.commit,
                .choice = choose_files(listing.files, options.patterns, options.repo.file,
                                       cat(options.repo.id, " (revision ", options.repo.revision, ")"))};
  for (RepoFile& file : plan.choice.wanted) {
    if (!file.size_bytes || file.checksum.empty()) client.describe(plan.commit, file);
    plan.total_bytes += *file.size_bytes;
    plan.missing_bytes += *file.size_bytes - bytes_in_cache(cache, file);
  }
  return plan;
}

void check_space(const fs::path& cache, const PullPlan& plan, const std::string& id) {
  std::error_code error;
  fs::create_directories(cache, error);
  require(!error, ErrorKind::kBadFile, cache.string(), ": can't be created: ", error.message());
  fs::space_info space = fs::space(cache, error);
  require(error || plan.missing_bytes <= space.available, ErrorKind::kOutOfMemory, id, ": needs ",
          gigabytes(plan.missing_bytes), " more in ", cache.string(), ", where ", gigabytes(space.available),
          " are free");
}

uint64_t download_all(Client& client, const RepoCache& cache, const PullPlan& plan, ProgressSink& progress) {
  uint64_t before = 0, received = 0;
  for (const RepoFile& file : plan.choice.wanted) {
    received += download_file(client, cache, plan.commit, file, [&](uint64_t bytes) {
      progress.update(static_cast<int64_t>(before + bytes), static_cast<int64_t>(plan.total_bytes),
                      printable(file.path));
    });
    before += *file.size_bytes;
  }
  return received;
}

}  // namespace

PullResult pull(const PullOptions& options, const PullListener& listener) {
  if (options.settings.offline) return from_cache(options);
  Client client(options.settings, options.repo);
  RepoCache cache(options.settings.cache, options.repo.id);
  PullPlan plan = make_plan(client, cache, options);
  if (listener.on_plan) listener.on_plan(plan);
  check_space(options.settings.cache, plan, options.repo.id);
  PullResult result{.path = cache.snapshot(plan.commit)};
  result.received_bytes =
      download_all(client, cache, plan, plan.missing_bytes > 0 ? listener.progress : null_progress());
  for (const RepoFile& file : plan.choice.wanted) cache.link(plan.commit, file.path, file.checksum);
  cache.write_ref(options.repo.revision, plan.commit);
  if (!options.repo.file.empty()) result.path /= options.repo.file;
  return result;
}

}  // namespace quaver::hub
