#include "nn/axis_rope.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sin.h>

namespace quaver::nn {

RopeAngles axis_angles(const at::Tensor& positions, const std::vector<int64_t>& dims, double theta,
                       at::ScalarType dtype) {
  std::vector<at::Tensor> angles;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    at::Tensor exponents = at::arange(0, dims[axis], 2, positions.options().dtype(at::kDouble)) /
                           static_cast<double>(dims[axis]);
    at::Tensor position = positions.select(1, static_cast<int64_t>(axis)).to(at::kDouble);
    angles.push_back(position.unsqueeze(1) * at::pow(theta, -exponents));
  }
  at::Tensor all = at::cat(angles, 1);
  return {at::cos(all).to(dtype), at::sin(all).to(dtype)};
}

}  // namespace quaver::nn
