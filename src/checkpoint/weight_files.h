// Which files of a folder hold a model's weights, and which tensor each of them must hold.
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
  bool pickled = false;    // PyTorch's files, not safetensors
};

// An index decides where there is one; without it there must be exactly one *.safetensors file. Only a folder
// without safetensors of a usual name is read from pytorch_model.bin (or diffusion_pytorch_model.bin) or the
// files that its index names; both are logged. Other pickles (*.pt, *.pth, *.ckpt ...) are never taken for
// weights: alone they are Error(kUnsupported) with advice, beside safetensors all pickles are ignored with a
// line in the log. Names that leave the folder are Error(kBadFile); a file that is missing is
// Error(kNotFound).
WeightFiles find_weight_files(const std::filesystem::path& folder);

}  // namespace quaver
