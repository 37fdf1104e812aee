// The text encoder of a diffusion model as pipelines and quantizers see it: embed, blocks, output.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/named_linear.h"
#include "nn/offload.h"
#include "nn/weight_source.h"

namespace quaver::models {

struct TextEncoderInfo {
  std::string family;  // for display only
  int64_t width = 0, vocab_size = 0, num_blocks = 0;
  int64_t max_tokens = 0;     // 0: any number
  int64_t pooled_width = 0;   // 0: gives no pooled row
  std::string blocks_prefix;  // "encoder.block": block i's tensors are `blocks_prefix`.i.*
};

// In the dtype and on the device of the weights.
struct TextRows {
  at::Tensor rows;    // [batch, tokens, width], after the final norm
  at::Tensor pooled;  // [batch, pooled_width]; undefined where the encoder has none
};

// What every block of one forward pass shares.
struct TextContext {
  at::Tensor bias;  // [1, heads, tokens, tokens], added to the scores; undefined where the encoder has none
};

class TextBlock {
 public:
  virtual ~TextBlock() = default;
  // Differentiable when a weight requires a gradient.
  virtual at::Tensor forward(const at::Tensor& hidden,  // [batch, tokens, width] -> the same
                             const TextContext& context) const = 0;
  // The layers a quantizer may touch, by checkpoint name relative to the block.
  virtual std::vector<NamedLinear> linears() = 0;
  // Lays weights out for their kernels now instead of on first use.
  virtual void prepare() const = 0;
};

class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  virtual const TextEncoderInfo& info() const = 0;
  virtual TextContext context(int64_t tokens) const = 0;
  // The first block's input; its dtype is that of all hidden rows, wider than the weights' where they would
  // overflow.
  virtual at::Tensor embed(const at::Tensor& ids) const = 0;  // int64 [batch, tokens], on the CPU
                                                              // -> [batch, tokens, width]
  virtual TextRows output(const at::Tensor& hidden,           // [batch, tokens, width]
                          const at::Tensor& ids) const = 0;   // [batch, tokens]
  // Builds block i from the source; the caller owns it. For block-by-block work.
  virtual std::unique_ptr<TextBlock> make_block(int64_t index, nn::WeightSource& source) const = 0;

  // Loads all blocks. Afterwards block(i) and forward work.
  void load_blocks(nn::WeightSource& source);
  // Every layer of the blocks, by checkpoint name. Precondition: the blocks are loaded.
  std::vector<NamedLinear> linears() const;
  TextBlock& block(int64_t index) const { return *blocks_.at(static_cast<size_t>(index)); }
  void prepare() const;

  // Without lengths every token takes part, padding too. With lengths, one for each entry, the tokens behind
  // an entry's length are as if they weren't there, and their rows are zero; each entry costs what its own
  // tokens cost. Error(kInvalidInput) when an id is outside the vocabulary or there are more tokens than
  // max_tokens.
  TextRows forward(const at::Tensor& ids,  // int64 [batch, tokens], on the CPU
                   std::span<const int64_t> lengths = {}) const;

 private:
  TextRows encode(const at::Tensor& ids) const;
  std::unique_ptr<nn::LayerOffload> offload_;  // where the options ask for it
  std::vector<std::unique_ptr<TextBlock>> blocks_;
};

// One row per architecture.
struct TextEncoderFamily {
  const char* architecture;  // what config.json's "architectures" names
  // What is no block, from the source. Throws Error(kBadFile) naming the config key.
  std::unique_ptr<TextEncoder> (*make_shell)(nn::WeightSource& source);
};

std::span<const TextEncoderFamily> text_encoder_families();

// Shell by the config's "architectures"; Error(kUnsupported) lists the known ones.
std::unique_ptr<TextEncoder> make_text_encoder_shell(nn::WeightSource& source);

// Shell, all blocks, and source.finish("").
std::unique_ptr<TextEncoder> load_text_encoder(nn::WeightSource& source);

}  // namespace quaver::models
