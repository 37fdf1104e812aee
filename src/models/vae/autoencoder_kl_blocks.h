// The two networks of an AutoencoderKL: residual blocks of convolutions, with attention at the smallest size.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "models/vae/autoencoder_kl_config.h"
#include "nn/conv.h"
#include "nn/group_norm.h"
#include "nn/linear.h"
#include "nn/offload.h"

namespace quaver::models {

// x + conv2(silu(norm2(conv1(silu(norm1(x)))))), x through a 1x1 convolution where the channels change.
class KlResidualBlock {
 public:
  KlResidualBlock(nn::WeightSource& source, const std::string& prefix, int64_t in, int64_t out,
                  int64_t groups);
  at::Tensor forward(const at::Tensor& x) const;  // [batch, in, h, w] -> [batch, out, h, w]
  void visit_tensors(const nn::TensorVisit& visit);

 private:
  nn::GroupNorm norm1_, norm2_;
  nn::Conv2d conv1_, conv2_;
  std::optional<nn::Conv2d> shortcut_;
};

// x + attention(norm(x)) of each pixel to all, with one head.
class KlAttention {
 public:
  KlAttention(nn::WeightSource& source, const std::string& prefix, int64_t channels, int64_t groups);
  at::Tensor forward(const at::Tensor& x) const;  // [batch, channels, h, w] -> the same
  void visit_tensors(const nn::TensorVisit& visit);

 private:
  nn::GroupNorm norm_;
  nn::Linear q_, k_, v_, out_;
};

// A residual block, attention where the model has it, a residual block.
class KlMiddle {
 public:
  KlMiddle(nn::WeightSource& source, const std::string& prefix, const KlConfig& config);
  at::Tensor forward(const at::Tensor& x) const;  // [batch, last of channels, h, w] -> the same
  void visit_tensors(const nn::TensorVisit& visit);

 private:
  KlResidualBlock first_;
  std::optional<KlAttention> attention_;
  KlResidualBlock second_;
};

class KlEncoder {
 public:
  KlEncoder(nn::WeightSource& source, const KlConfig& config);
  at::Tensor forward(
      const at::Tensor& pixels) const;  // [batch, in_channels, H, W] -> [batch, 2 latent, h, w]
  void visit_tensors(const nn::TensorVisit& visit);

 private:
  struct Level {
    std::vector<KlResidualBlock> blocks;
    std::optional<nn::DownConv2d> down;  // not of the last
  };
  nn::Conv2d conv_in_;
  std::vector<Level> levels_;
  KlMiddle middle_;
  nn::GroupNorm norm_out_;
  nn::Conv2d conv_out_;
};

class KlDecoder {
 public:
  KlDecoder(nn::WeightSource& source, const KlConfig& config);
  at::Tensor forward(
      const at::Tensor& latents) const;  // [batch, latent, h, w] -> [batch, out_channels, H, W]
  void visit_tensors(const nn::TensorVisit& visit);

 private:
  struct Level {
    std::vector<KlResidualBlock> blocks;
    std::optional<nn::UpConv2d> up;  // not of the last
  };
  nn::Conv2d conv_in_;
  KlMiddle middle_;
  std::vector<Level> levels_;
  nn::GroupNorm norm_out_;
  nn::Conv2d conv_out_;
};

}  // namespace quaver::models
