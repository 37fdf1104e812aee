// Noise, and the tokens that a transformer sees of a latent picture.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace quaver::diffusion {

// Standard normal noise of one picture, drawn on the CPU whatever the device, so that a seed gives the same
// picture alone, in a batch and on every machine: what `torch.randn` draws with a generator of this seed. Not
// thread safe.
class SeededNoise {
 public:
  explicit SeededNoise(uint64_t seed);
  at::Tensor draw(at::IntArrayRef shape);  // float32; goes on where the last draw ended

 private:
  at::Generator generator_;
};

// Squares of 2 x 2 become tokens: channel, then row, then column of the square.
at::Tensor pack(const at::Tensor& latents);     // [batch, c, h, w] -> [batch, h/2 * w/2, 4 c]
at::Tensor unpack(const at::Tensor& tokens,     // [batch, rows * cols, 4 c]
                  int64_t rows, int64_t cols);  // -> [batch, c, 2 rows, 2 cols]

// sigma * noise + (1 - sigma) * picture.
at::Tensor noised(const at::Tensor& picture, const at::Tensor& noise, double sigma);

// One step of Euler's method along the velocity, in float32.
at::Tensor euler_step(const at::Tensor& latents,   // float32
                      const at::Tensor& velocity,  // the same shape
                      double sigma, double next_sigma);

}  // namespace quaver::diffusion
