#include "quantize/model_layers.h"

#include <memory>

#include "base/error.h"
#include "nn/weight_source.h"

namespace quaver::quantize {

namespace {

void add_layers(std::vector<LayerShape>& layers, const std::string& prefix,
                const std::vector<models::NamedLinear>& linears) {
  for (const models::NamedLinear& linear : linears)
    layers.push_back({.name = prefix + linear.name,
                      .out = linear.linear->out_features(),
                      .in = linear.linear->in_features(),
                      .fused = cat(prefix, linear.fusion_group),
                      .modulation = linear.modulation});
}

// Builds the blocks from shapes and dtypes alone.
template <class Shell, class NameOf>
std::vector<LayerShape> layers_of_blocks(const Shell& shell, int64_t blocks, const NameOf& name_of,
                                         const Checkpoint& checkpoint) {
  nn::WeightSource shapes(checkpoint, {.device = at::kMeta, .plain_values = true});
  std::vector<LayerShape> layers;
  for (int64_t index = 0; index < blocks; ++index)
    add_layers(layers, cat(name_of(index), "."), shell.make_block(index, shapes)->linears());
  return layers;
}

}  // namespace

std::vector<LayerShape> quantizable_layers(const models::CausalLm& shell, const Checkpoint& checkpoint) {
  const models::CausalLmInfo& info = shell.info();
  const auto name_of = [&](int64_t index) { return cat(info.blocks_prefix, ".", index); };
  return layers_of_blocks(shell, info.num_layers, name_of, checkpoint);
}

std::vector<LayerShape> quantizable_layers(const models::Dit& shell, const Checkpoint& checkpoint) {
  const auto name_of = [&](int64_t index) { return shell.block_name(index); };
  return layers_of_blocks(shell, shell.info().num_blocks, name_of, checkpoint);
}

std::vector<LayerShape> quantizable_layers(const models::TextEncoder& shell, const Checkpoint& checkpoint) {
  const models::TextEncoderInfo& info = shell.info();
  const auto name_of = [&](int64_t index) { return cat(info.blocks_prefix, ".", index); };
  return layers_of_blocks(shell, info.num_blocks, name_of, checkpoint);
}

LayerShape head_layer(const models::CausalLm& shell, const Checkpoint& checkpoint) {
  const models::CausalLmInfo& info = shell.info();
  require(!info.tied_embeddings, ErrorKind::kInvalidInput, checkpoint.path().string(), ": ", info.head,
          " is tied to the embedding, which stays as it is, so that it can't be quantized; leave "
          "--quant_lm_head out");
  return {.name = info.head, .out = info.vocab_size, .in = info.hidden_size};
}

}  // namespace quaver::quantize
