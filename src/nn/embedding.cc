#include "nn/embedding.h"

#include <ATen/ops/embedding.h>

namespace quaver::nn {

at::Tensor embedding(const at::Tensor& table, const at::Tensor& token_ids, at::ScalarType compute_dtype) {
  return at::embedding(table, token_ids).to(compute_dtype);
}

}  // namespace quaver::nn
