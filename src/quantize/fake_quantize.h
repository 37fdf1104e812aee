// Fake quantization of tensors wherever they lie: the kernel on the CPU, ATen expressions elsewhere.
#pragma once

#include "kernels/qdq/qdq.h"
#include "quantize/qdq_aten.h"

namespace quaver::quantize {

// Borrows the tensors, which are contiguous and on the CPU; value, alpha and beta are changed by
// qdq_backward.
kernels::QdqArgs kernel_args(const QdqTensors& tensors, const Scheme& scheme);

DType kernel_dtype(const at::Tensor& tensor);  // of a float32 or bfloat16 tensor

// Writes the fake-quantized weight over `fake`: [out, in], contiguous, float32 or bfloat16.
void fake_quantize(const QdqTensors& tensors, const Scheme& scheme, at::Tensor& fake);

}  // namespace quaver::quantize
