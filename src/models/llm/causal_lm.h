// A decoder-only language model as engines and quantizers see it: embed, blocks, logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "models/named_linear.h"
#include "nn/attention_context.h"
#include "nn/linear.h"
#include "nn/moe.h"
#include "nn/rope.h"
#include "nn/weight_source.h"

namespace quaver::models {

struct CausalLmInfo {
  std::string family;  // for display only
  int64_t num_layers = 0, hidden_size = 0, vocab_size = 0;
  int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  int64_t max_position_embeddings = 0;
  bool tied_embeddings = false;
  bool latent_attention = false;    // what is cached is no key or value of a head
  bool quantized_kv_cache = false;  // keys and values are to be kept in e4m3fn
  std::string head;           // "lm_head": the layer that gives the logits; no tensor of its own when tied
  std::string attention;      // "self_attn": a block's attention, relative to the block
  std::string blocks_prefix;  // "model.layers": block i's tensors are `blocks_prefix`.i.*
};

// What every block of one forward pass shares.
struct StepContext {
  at::Tensor positions;  // int64 [tokens]
  nn::AttentionContext* attention = nullptr;
  nn::RopeCache* rope = nullptr;             // optional; CausalLm::forward sets one of its own
  nn::ExpertCalibration* experts = nullptr;  // of the block that runs; null: experts see what chose them
};

class DecoderBlock {
 public:
  virtual ~DecoderBlock() = default;
  // Rows of all sequences concatenated. Differentiable when a weight requires a gradient.
  virtual at::Tensor forward(const at::Tensor& hidden,  // [tokens, hidden]
                             const StepContext& step) const = 0;
  using NamedLinear = models::NamedLinear;
  // The layers a quantizer may touch. Routers, norms and biases are not among them.
  virtual std::vector<NamedLinear> linears() = 0;
  // Lays weights out for their kernels now instead of on first use.
  virtual void prepare() const = 0;
};

// True for the head's tensor where the embedding takes its place: some writers store both.
inline bool is_second_copy_of_head(const CausalLmInfo& info, std::string_view tensor) {
  return info.tied_embeddings && tensor == info.head + ".weight";
}

class CausalLm {
 public:
  virtual ~CausalLm() = default;
  virtual const CausalLmInfo& info() const = 0;
  virtual at::Tensor embed(const at::Tensor& token_ids) const = 0;  // int64 [tokens] -> [tokens, hidden]
  virtual at::Tensor logits(
      const at::Tensor& hidden) const = 0;  // [tokens, hidden] -> f32 [tokens, vocab]; final norm included
  // Builds block i from the source; the caller owns it. For block-by-block work.
  virtual std::unique_ptr<DecoderBlock> make_block(int64_t index, nn::WeightSource& source) const = 0;

  // Final norm and head as a block of its own, [tokens, hidden] -> [tokens, vocab], before any softcap; its
  // one linear has the head's full name. Precondition: the head is not tied.
  virtual std::unique_ptr<DecoderBlock> make_head(nn::WeightSource& source) const = 0;

  // The layer of the logits; null where the embedding takes its place.
  virtual nn::Linear* head() = 0;
  // Of the head; for serving, where the first request should not pay.
  virtual void prepare_head() const = 0;
  void prepare() const;  // head and loaded blocks

  // Loads all blocks. Afterwards block(i) and forward work.
  void load_blocks(nn::WeightSource& source);
  DecoderBlock& block(int64_t index) { return *blocks_.at(static_cast<size_t>(index)); }
  at::Tensor forward(const at::Tensor& token_ids,
                     const StepContext& step) const;  // -> hidden before the final norm

 private:
  std::vector<std::unique_ptr<DecoderBlock>> blocks_;
};

// One row per family.
struct CausalLmFamily {
  const char* model_type;    // config.json's "model_type"
  const char* architecture;  // what config.json's "architectures" must name, where it names any
  // Embedding, final norm and head from the source; no blocks. Throws Error(kBadFile) naming the config key.
  std::unique_ptr<CausalLm> (*make_shell)(nn::WeightSource& source);
  // Shows a folder's tensors under the names that the modules use; null where these are the folder's own.
  std::unique_ptr<Checkpoint> (*present)(std::unique_ptr<Checkpoint> folder) = nullptr;
};

std::span<const CausalLmFamily> causal_lm_families();

// Shell by the config's model_type; Error(kUnsupported) lists the known ones.
std::unique_ptr<CausalLm> make_causal_lm_shell(nn::WeightSource& source);

// Shell, all blocks, and source.finish("").
std::unique_ptr<CausalLm> load_causal_lm(nn::WeightSource& source);

// Opens a Hugging Face folder as its family presents it, or a .gguf presented under Hugging Face names with a
// synthesised config, sidecars (generation_config.json, tokenizer_config.json) and dequantizable tensors.
std::unique_ptr<Checkpoint> open_model(const std::string& folder_or_file);

}  // namespace quaver::models
