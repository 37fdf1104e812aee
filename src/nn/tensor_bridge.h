// Where checkpoint bytes become tensors: dtype names and borrowed memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "checkpoint/checkpoint.h"

namespace quaver::nn {

// Nothing for block dtypes and for types that torch lacks.
std::optional<at::ScalarType> scalar_type_of(DType dtype);
// Precondition: float32, bfloat16, float16, float64 or an integer type.
DType dtype_of(at::ScalarType type);

// Plain numbers as modules compute with them: not codes, not 8-bit floats, which are some format's codes.
bool is_floating(DType dtype);

// A CPU tensor over the view's own bytes, which it keeps alive; copied only when they are not aligned. The
// result must not be written to. Error(kBadFile) beginning with `what` on a dtype that torch lacks.
at::Tensor tensor_over(const TensorView& view, std::string_view what);

// The bytes of a contiguous CPU tensor (made contiguous and moved when it is not), shared with the tensor.
TensorView view_of(const at::Tensor& tensor);

}  // namespace quaver::nn
