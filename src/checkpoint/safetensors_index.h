// Which safetensors files of a folder hold a model's weights, and which tensor each of them must hold.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace quaver {

struct WeightFiles {
  std::vector<std::string> names;  // relative to the folder, sorted
  // Tensor to file, as the index says; empty when a single file stands without an index.
  std::map<std::string, std::string, std::less<>> weight_map;
  std::string index_name;  // empty without an index
};

// An index decides where there is one; without it there must be exactly one *.safetensors file. Pickle files
// (pytorch_model.bin, *.pt, *.pth, *.ckpt) are never opened: alone they are Error(kUnsupported) with advice,
// beside safetensors they are ignored with a line in the log. Names that leave the folder are
// Error(kBadFile); a file that is missing is Error(kNotFound).
WeightFiles find_weight_files(const std::filesystem::path& folder);

// True for the endings of files that only Python's unpickler can read.
bool is_pickle_name(std::string_view file_name);

}  // namespace quaver
