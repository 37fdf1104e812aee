// One weight rounded to nearest under any scheme, in slices of rows that take little memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "quantize/rounding.h"
#include "quantize/scheme.h"

namespace quaver::quantize {

// A scheme of integers for a weight [out, in], computed by all threads.
RoundingProblem integer_problem(int64_t out, int64_t in, const Scheme& scheme);

// `weight` is [out, in] of any floating dtype and on any device; `shared_amax` as make_tunable() takes it.
// The result asks nothing of the layer's input. Beside weight and result, memory holds a few times a slice of
// a million values; the whole weight as float32 where a scheme has one scale for all of it, and of integers
// where the weight is not bfloat16. Error(kNonFinite), beginning with `what`, for a weight that is not
// finite.
QuantWeight round_to_nearest(const at::Tensor& weight, const Scheme& scheme, float shared_amax,
                             std::string_view what);

// The largest magnitude of a weight; NaN where it holds one.
float largest_magnitude(const at::Tensor& weight);

}  // namespace quaver::quantize
