#include "nn/rank_group.h"

namespace quaver::nn {

std::vector<int64_t> even_split(int64_t total, int64_t parts) {
  std::vector<int64_t> sizes(static_cast<size_t>(parts), total / parts);
  for (int64_t i = 0; i < total % parts; ++i) ++sizes[static_cast<size_t>(i)];
  return sizes;
}

}  // namespace quaver::nn
