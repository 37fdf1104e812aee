// One PyTorch checkpoint (torch.save's zip archive around a pickle), mapped into memory.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "checkpoint/pickle_tensors.h"

namespace quaver {

// Immutable, safe to read from many threads. The pickle is read by checkpoint/pickle_reader.h, which knows
// tensors and runs nothing.
class PickleFile {
 public:
  // Checks the whole pickle against the file. Throws as read_pickled_tensors does, and Error(kNotFound) when
  // the file can't be opened.
  static PickleFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_->path(); }
  const std::vector<PickledTensor>& entries() const { return contents_.tensors; }  // sorted by name
  const std::map<std::string, std::string>& metadata() const { return contents_.metadata; }

  // A view of the mapping; a copy for tensors whose strides aren't row-major, and for those that do not lie
  // on a multiple of their element's size.
  TensorView read(const PickledTensor& entry) const;

  // Lets the pages that hold nothing but this tensor leave the resident set; views stay valid.
  void release(const PickledTensor& entry) const;

 private:
  std::shared_ptr<const MappedFile> file_;
  PickledTensors contents_;
};

}  // namespace quaver
