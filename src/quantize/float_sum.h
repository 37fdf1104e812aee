// The sum of a row of floats in the order of the tool whose search is reproduced.
#pragma once

#include <cstddef>

namespace quaver::quantize {

// Pairwise in blocks: sixteen lanes, four strands of them, four cascaded levels. The order is that of
// libtorch's reduction over a contiguous row on processors with 512-bit vectors; near ties between two scales
// hang on it.
float cascaded_sum(const float* values, size_t count);

}  // namespace quaver::quantize
