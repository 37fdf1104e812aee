// Where a job's result goes: a partial folder beside the target, put in place when it is complete and
// checked.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/checkpoint.h"

namespace quaver::quantize {

// Error(kInvalidInput) when the target is there and not empty, unless `overwrite`, or an interrupted run is,
// unless `resume` or `overwrite`. Jobs ask before any work.
void require_free_output(const std::filesystem::path& target, bool resume, bool overwrite);

// Owns <target>.partial for the length of a job.
class OutputFolder {
 public:
  // Errors of require_free_output; `overwrite` deletes the target when the job is done, an interrupted run
  // now. `resume` goes on with an interrupted run of an equal `fingerprint`, else Error(kInvalidInput);
  // without one it starts afresh.
  OutputFolder(const std::filesystem::path& target, const json& fingerprint, bool resume, bool overwrite);
  // A short job's folder: nothing is left of it unless it is published.
  OutputFolder(const std::filesystem::path& target, bool overwrite)
      : OutputFolder(target, json::object(), false, overwrite) {
    resumable_ = false;
  }
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  // For finished parts; deleted by publish.
  std::filesystem::path staging() const { return partial_ / "staged"; }
  // What becomes the target.
  std::filesystem::path result() const { return partial_ / "result"; }

  // Renames result() to the target and removes the partial folder.
  void publish();

 private:
  std::filesystem::path target_, partial_;
  bool resumable_ = true;
};

// Makes a folder and those above it. What it made goes away with it, unless something lies in it by then.
class MadeFolders {
 public:
  explicit MadeFolders(const std::filesystem::path& folder);
  ~MadeFolders();
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;

 private:
  std::vector<std::filesystem::path> made_;  // inner ones first
};

// Copies a pipeline's folder but for some components and settings that speak for it: byte for byte, weights
// of the other components too; code is left out.
void copy_pipeline(const std::filesystem::path& source, const std::set<std::string>& components,
                   const std::filesystem::path& target);

// Copies every file of the source folder but weights, code, quantization settings and config.json, byte for
// byte; subfolders too. Returns the code files that were left out, for the caller to report.
std::vector<std::string> copy_sidecars(const std::filesystem::path& source,
                                       const std::filesystem::path& target);

}  // namespace quaver::quantize
