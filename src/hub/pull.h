// Downloads a model from the hub into the cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/progress.h"
#include "hub/file_choice.h"
#include "hub/repo_id.h"
#include "hub/settings.h"

namespace quaver::hub {

struct PullOptions {
  Settings settings;
  RepoName repo;
  FilePatterns patterns;
};

struct PullPlan {
  std::string commit;
  FileChoice choice;
  uint64_t total_bytes = 0;    // of the wanted files
  uint64_t missing_bytes = 0;  // of them, not yet in the cache
};

// Hears of a pull while it runs; on the calling thread.
struct PullListener {
  std::function<void(const PullPlan&)> on_plan;  // before the first byte; may be empty
  ProgressSink& progress;                        // in bytes
};

struct PullResult {
  std::filesystem::path path;  // the snapshot's folder, or the one file that was named
  uint64_t received_bytes = 0;
};

// Asks the hub for the list of files even when all are cached: that is how a moved branch is noticed. A
// snapshot gets its files only when all of them are whole and verified, so what is interrupted leaves at most
// "*.incomplete" files, which the next call continues; it is safe to kill the process at any time, and to run
// several at once. Offline, the cache alone answers. Error(kOutOfMemory) when the disk has no room for all
// files; else those of Client, choose_files and download_file.
PullResult pull(const PullOptions& options, const PullListener& listener);

}  // namespace quaver::hub
