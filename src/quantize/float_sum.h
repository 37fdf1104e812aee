// The sum of a row of floats in the order of the tool whose search is reproduced.
#pragma once

#include <cstddef>

namespace quaver::quantize {

// Eight lanes, four strands of them, four cascaded levels: the order of libtorch's reduction over a
// contiguous row on x86-64. Near ties between two scales hang on it.
float cascaded_sum(const float* values, size_t count);

}  // namespace quaver::quantize
