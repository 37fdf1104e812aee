// torchao's tensor classes: which tensors each is made of, and what they mean.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/format.h"

namespace quaver {

// What the file says of one parameter: in a safetensors header, or beside the pickled object.
struct TorchAoParameter {
  std::string type;                // "Int8Tensor"; empty for a plain one
  json data;                       // attributes that are no tensors
  std::vector<std::string> parts;  // "qdata", "scale" ...
};

// Error(kBadFile) beginning with `what` for text that is no description.
TorchAoParameter parse_torchao_parameter(const std::string& text, const std::string& what);

// Error(kUnsupported) naming class or attribute when Quaver can't run it.
void check_torchao_parameter(const TorchAoParameter& parameter, const std::string& what);

// Precondition: plan.scheme is {"type": ..., "data": ...} of a checked parameter.
QuantWeight unpack_torchao(const LayerPlan& plan, const Checkpoint& checkpoint);

}  // namespace quaver
