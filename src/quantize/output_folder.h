// Where a job's result goes: a partial folder beside the target, put in place when it is complete and
// checked.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/checkpoint.h"

namespace quaver::quantize {

// Owns <target>.partial for the length of a job.
class OutputFolder {
 public:
  // Error(kInvalidInput) when the target is there and not empty, or an interrupted run is, unless `overwrite`
  // (which deletes them when the job is done, respectively now) or `resume` with an equal `fingerprint`.
  // `resume` without an interrupted run starts afresh.
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

// Copies every file of the source folder but weights, code, quantization settings and config.json, byte for
// byte; subfolders too. Returns the code files that were left out, for the caller to report.
std::vector<std::string> copy_sidecars(const std::filesystem::path& source,
                                       const std::filesystem::path& target);

}  // namespace quaver::quantize
