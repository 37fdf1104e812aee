// A diffusion transformer as pipelines and quantizers see it: embed, blocks, output.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/diffusers_folder.h"
#include "models/named_linear.h"
#include "nn/joint_attention.h"
#include "nn/offload.h"
#include "nn/rope.h"
#include "nn/weight_source.h"

namespace quaver::models {

struct DitInfo {
  std::string family;  // for display only
  int64_t num_blocks = 0;
  int64_t channels = 0;  // of a token of the picture, in and out
  int64_t width = 0, num_heads = 0, head_dim = 0;
  int64_t text_width = 0;
  int64_t pooled_width = 0;     // 0: takes no pooled text
  bool takes_guidance = false;  // the guidance scale is an input
  // How many values a pass holds for each token where a block holds most, in the weights' dtype; without
  // ranks that divide them.
  int64_t values_per_token = 0;
};

// What one forward pass sees. Batch entries share size and text length.
struct DitInput {
  at::Tensor latents;   // [batch, image tokens, channels]
  at::Tensor text;      // [batch, text tokens, text_width]
  at::Tensor pooled;    // [batch, pooled_width]; undefined where the model takes none
  at::Tensor sigma;     // float32 [batch], 1 = pure noise
  at::Tensor guidance;  // float32 [batch]; undefined where the model takes none
  nn::RopeAngles rope;  // Dit::rope of this size and text length
};

// The two streams that blocks pass on. Where ranks divide the tokens of a pass, a rank has its share of the
// picture's and its share of the text's, each split evenly in order (nn::even_split), a share may be empty;
// ranks of a tensor group have the same. What is measured over a stream is to be summed over the ranks.
struct DitState {
  at::Tensor image;  // [batch, image tokens, width]
  at::Tensor text;   // [batch, text tokens, width]
};

// What every block of one forward pass shares.
struct DitContext {
  at::Tensor condition;               // [batch, width], of time, guidance and pooled text
  nn::RopeAngles rope;                // [text tokens + image tokens, head_dim / 2], of this rank's
  nn::TokenRanks tokens;              // who else has some, both streams together
  std::vector<int64_t> image_tokens;  // of each rank in `tokens`
};

class DitBlock {
 public:
  virtual ~DitBlock() = default;
  // Differentiable when a weight requires a gradient.
  virtual DitState forward(const DitState& state, const DitContext& context) const = 0;
  // The picture's stream as the attention sees it, normalized and modulated: what step caches watch.
  virtual at::Tensor modulated_input(const DitState& state,
                                     const DitContext& context) const = 0;  // [batch, tokens, width]
  // The layers a quantizer may touch, by checkpoint name relative to the block.
  virtual std::vector<NamedLinear> linears() = 0;
  // Lays weights out for their kernels now instead of on first use.
  virtual void prepare() const = 0;
};

// Where the source's options name ranks, each of them loads its part and calls the functions of a pass in the
// same order with the same input; each gets the whole output.
class Dit {
 public:
  explicit Dit(const nn::LoadOptions& options) : sequence_ranks_(options.sequence_ranks) {}
  virtual ~Dit() = default;
  virtual const DitInfo& info() const = 0;
  // "transformer_blocks.0": the prefix of block i's tensors.
  virtual std::string block_name(int64_t index) const = 0;
  // What stands in front of the numbers there, in the blocks' order: "transformer_blocks".
  std::vector<std::string> block_lists() const;
  // Angles of text tokens followed by a picture of rows x cols tokens.
  virtual nn::RopeAngles rope(int64_t text_tokens, int64_t rows, int64_t cols) const = 0;

  DitContext context(const DitInput& input) const;
  DitState embed(const DitInput& input) const;
  at::Tensor output(const DitState& state,
                    const DitContext& context) const;  // -> [batch, image tokens, channels]
  // Builds block i from the source; the caller owns it. For block-by-block work.
  virtual std::unique_ptr<DitBlock> make_block(int64_t index, nn::WeightSource& source) const = 0;

  // The layers outside of the blocks, by checkpoint name.
  virtual std::vector<NamedLinear> outer_linears() = 0;

  // Loads all blocks. Afterwards block(i) and forward work.
  void load_blocks(nn::WeightSource& source);
  // Every layer, by checkpoint name. Precondition: the blocks are loaded.
  std::vector<NamedLinear> linears();
  DitBlock& block(int64_t index) const { return *blocks_.at(static_cast<size_t>(index)); }
  void prepare() const;
  // The velocity, in the dtype of the weights.
  at::Tensor forward(const DitInput& input) const;  // -> [batch, image tokens, channels]

 private:
  // What a family says of the tokens that are here; how ranks divide them is no matter of its own.
  virtual at::Tensor condition(const DitInput& input) const = 0;    // -> [batch, width]
  virtual DitState embed_tokens(const at::Tensor& latents,          // [batch, image tokens, channels]
                                const at::Tensor& text) const = 0;  // [batch, text tokens, text_width]
  virtual at::Tensor project_out(
      const at::Tensor& image,                 // [batch, image tokens, width]
      const at::Tensor& condition) const = 0;  // -> [batch, image tokens, channels]

  IndexRun own(int64_t tokens) const;  // of one stream

  const nn::RankGroup* sequence_ranks_;
  std::unique_ptr<nn::LayerOffload> offload_;  // where the options ask for it
  std::vector<std::unique_ptr<DitBlock>> blocks_;
};

// One row per family.
struct DitFamily {
  const char* class_name;  // config.json's "_class_name"
  // What is no block, from the source. Throws Error(kBadFile) naming the config key.
  std::unique_ptr<Dit> (*make_shell)(nn::WeightSource& source);
  // Shows tensors under the names that the modules use; null where these are always the files' own.
  std::unique_ptr<Checkpoint> (*present)(std::unique_ptr<Checkpoint> stored) = nullptr;
};

std::span<const DitFamily> dit_families();

// Error(kInvalidInput) naming the flags where a rank of tensor x sequence ranks would have no head to attend
// with.
void check_dit_ranks(const DitInfo& info, int64_t tensor, int64_t sequence);

// The pipeline's transformer as its family presents it.
std::unique_ptr<Checkpoint> open_dit(const DiffusersFolder& folder);

// Shell by the config's "_class_name"; Error(kUnsupported) lists the known ones.
std::unique_ptr<Dit> make_dit_shell(nn::WeightSource& source);

// Shell, all blocks, and source.finish("").
std::unique_ptr<Dit> load_dit(nn::WeightSource& source);

}  // namespace quaver::models
