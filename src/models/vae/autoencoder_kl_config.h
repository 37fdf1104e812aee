// What config.json says of an AutoencoderKL.
#pragma once

#include <cstdint>
#include <vector>

#include "models/llm/config_reader.h"

namespace quaver::models {

struct KlConfig {
  int64_t in_channels = 3, out_channels = 3, latent_channels = 4;
  std::vector<int64_t> channels;  // of each level, the largest pictures first
  int64_t layers_per_block = 1;   // residual blocks of a level of the encoder; the decoder has one more
  int64_t groups = 32;            // of every norm
  int64_t sample_pixels = 32;
  bool mid_attention = true;
  bool quant_conv = true, post_quant_conv = true;
  bool force_upcast = true;  // never computes in float16
  // The networks' latents are those that transformers see, * std + mean. One of each, or one per channel.
  std::vector<double> latents_mean, latents_std;
};

// Absent keys have the values that diffusers gives them. Error(kBadFile) or Error(kUnsupported) naming the
// key.
KlConfig read_autoencoder_kl(const ConfigReader& config);

// ImageVaeInfo::values_per_pixel. The level that holds most decides, each pixel of it standing for 4^i of the
// picture's: a residual block from C to O channels holds its input, the norm of it and the first
// convolution's result (2 C + O), or input, that result, its norm and the second one's (C + 3 O); doubling
// the sides of C channels holds operand, repeated pixels and result (2.25 C).
int64_t decoder_values_per_pixel(const KlConfig& config);

}  // namespace quaver::models
