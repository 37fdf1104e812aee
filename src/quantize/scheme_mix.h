// Mixed bits: a scheme for each layer, so that the mean stays below a number of bits and the predicted loss
// is least.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "quantize/scheme.h"

namespace quaver::quantize {

// Bits that one scheme takes for a layer's weights: codes, scales (16 bits, under powers of two and NVFP4 8)
// and, of integers, zero points.
double bits_of(const Scheme& scheme, const LayerShape& layer);

struct MixedBits {
  std::vector<LayerDecision> decisions;  // in the order of the layers
  double bits = 0;                       // mean over the weights of quantized layers
  double loss = 0;                       // predicted: nats per token
  std::string summary;  // "3.48 bits on average, predicted loss 0.021: 120 layers W2A16 g64 sym, ..."
};

// `decisions` are those of decide_layers() for one base scheme: layers that rules took out of it stay as they
// are and count with their bits, unless they are at 16. The others get one of `options`; `losses` holds each
// one's prediction per option (measure_sensitivity). Layers that engines fuse or run as one (experts of a
// block) get the same one; a layer without prediction, the head, that with the most bits.
// Error(kInvalidInput) where even the smallest options are more than `mean_bits`.
MixedBits mix_schemes(std::span<const LayerShape> layers, std::vector<LayerDecision> decisions,
                      std::span<const Scheme> options,
                      const std::map<std::string, std::vector<double>>& losses, double mean_bits);

// What the options are where the user names none: the widths of the base scheme's family.
// Error(kInvalidInput) for a family of one width.
std::vector<Scheme> default_options(const Scheme& base);

}  // namespace quaver::quantize
