// The tensors in a PyTorch file, found and checked without a Python.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace quaver {

struct PickledTensor {
  TensorInfo info;
  uint64_t offset = 0;           // of the first element, from the start of the file
  uint64_t span_bytes = 0;       // to the end of the last one
  std::string part_of;           // the tensor whose part it is, by which an index knows it; empty: none
  std::vector<int64_t> strides;  // in elements, beside the shape; empty: row-major without gaps
};

struct PickledTensors {
  std::vector<PickledTensor> tensors;  // sorted by name
  // What a tensor of a class of its own is, under its name: JSON text {"_type": class, "_data": {its
  // attributes}, "_tensor_data_names": [...]}. The tensors inside it stand among `tensors`: attribute "scale"
  // of "a.weight" as "a._weight_scale". An attribute's object is {"_type": class, "_data": its state, or what
  // it was made of}, a dtype {"_type": "torch.dtype", "_data": "int4"}.
  std::map<std::string, std::string> metadata;
};

// `file` is the whole file (torch.save of one dictionary from names to tensors), `what` its name for
// messages. Every element of every tensor lies inside its storage, no tensor is larger than its storage, no
// name stands twice. Memory stays in proportion to the pickle. Throws Error(kBadFile); Error(kUnsupported)
// naming tensor and class or dtype for sound files that hold something else.
PickledTensors read_pickled_tensors(std::span<const std::byte> file, std::string_view what);

}  // namespace quaver
