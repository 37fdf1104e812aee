// Tensors kept on disk in finished parts, so that a long job can be killed at any moment and go on from its
// last part.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors_file.h"

namespace quaver {

// A folder of small safetensors files, one per part. A part is there whole or not at all, whatever kills the
// process. Not thread safe. At the end `tensors` and `read` feed write_safetensors, which needs the full
// list; the bytes it writes then do not depend on how often the job was interrupted.
class StagedTensors {
 public:
  // Creates the folder, or takes up the finished parts of an earlier run and deletes half-written ones. A
  // damaged part is Error(kBadFile).
  explicit StagedTensors(const std::filesystem::path& folder);

  bool has(std::string_view part) const { return parts_.contains(part); }
  std::vector<std::string> parts() const;  // sorted

  // Precondition: `part` is made of letters, digits, '.', '_' and '-'. Replaces a part of that name.
  // `metadata` is the caller's own record. Error(kInvalidInput) when a tensor stands in another part already.
  void write(std::string_view part, const std::vector<NamedTensor>& tensors,
             const std::map<std::string, std::string>& metadata = {});

  // Precondition: has(part).
  const std::map<std::string, std::string>& metadata(std::string_view part) const;
  void drop(std::string_view part);

  // Over all parts; order of parts, then of names.
  std::vector<TensorInfo> tensors() const;
  // A copy, so that writing out many parts does not fill memory with mapped pages. Throws Error(kNotFound)
  // when no part has it.
  TensorView read(std::string_view name) const;

  // Deletes the folder and everything in it.
  void clear();

 private:
  const SafetensorsFile* find_file(std::string_view name) const;

  std::filesystem::path folder_;
  std::map<std::string, SafetensorsFile, std::less<>> parts_;
};

}  // namespace quaver
