#include "models/same_tensor.h"

#include <algorithm>

namespace quaver::models {

bool same_tensor(const Checkpoint& checkpoint, std::string_view a, std::string_view b) {
  TensorView first = checkpoint.read(a), second = checkpoint.read(b);
  return first.dtype == second.dtype && first.shape == second.shape &&
         std::ranges::equal(first.data.bytes(), second.data.bytes());
}

}  // namespace quaver::models
