#include "diffusion/latents.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/randn.h>

namespace quaver::diffusion {

SeededNoise::SeededNoise(uint64_t seed) : generator_(at::detail::createCPUGenerator(seed)) {}

at::Tensor SeededNoise::draw(at::IntArrayRef shape) {
  return at::randn(shape, generator_, at::TensorOptions(at::kFloat));
}

at::Tensor pack(const at::Tensor& latents) {
  return latents.unflatten(3, {-1, 2})
      .unflatten(2, {-1, 2})  // [batch, c, rows, 2, cols, 2]
      .permute({0, 2, 4, 1, 3, 5})
      .flatten(3)
      .flatten(1, 2);
}

at::Tensor unpack(const at::Tensor& tokens, int64_t rows, int64_t cols) {
  return tokens.unflatten(2, {-1, 2, 2})
      .unflatten(1, {rows, cols})  // [batch, rows, cols, c, 2, 2]
      .permute({0, 3, 1, 4, 2, 5})
      .flatten(4)
      .flatten(2, 3);
}

at::Tensor noised(const at::Tensor& picture, const at::Tensor& noise, double sigma) {
  return noise * sigma + picture * (1 - sigma);
}

at::Tensor euler_step(const at::Tensor& latents, const at::Tensor& velocity, double sigma,
                      double next_sigma) {
  return at::add(latents, velocity.to(at::kFloat), next_sigma - sigma);
}

}  // namespace quaver::diffusion
