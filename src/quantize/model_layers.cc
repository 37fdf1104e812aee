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

}  // namespace

std::vector<LayerShape> quantizable_layers(const models::CausalLm& shell, const Checkpoint& checkpoint) {
  nn::WeightSource shapes(checkpoint, {.device = at::kMeta, .plain_values = true});
  std::vector<LayerShape> layers;
  for (int64_t index = 0; index < shell.info().num_layers; ++index)
    add_layers(layers, cat(shell.info().blocks_prefix, ".", index, "."),
               shell.make_block(index, shapes)->linears());
  return layers;
}

std::vector<LayerShape> quantizable_layers(const models::Dit& shell, const Checkpoint& checkpoint) {
  nn::WeightSource shapes(checkpoint, {.device = at::kMeta, .plain_values = true});
  std::vector<LayerShape> layers;
  for (int64_t index = 0; index < shell.info().num_blocks; ++index)
    add_layers(layers, shell.block_name(index) + ".", shell.make_block(index, shapes)->linears());
  return layers;
}

LayerShape head_layer(const models::CausalLm& shell, const Checkpoint& checkpoint) {
  const models::CausalLmInfo& info = shell.info();
  require(!info.tied_embeddings, ErrorKind::kInvalidInput, checkpoint.path().string(), ": ", info.head,
          " is tied to the embedding, which stays as it is, so that it can't be quantized; leave "
          "--quant_lm_head out");
  return {.name = info.head, .out = info.vocab_size, .in = info.hidden_size};
}

}  // namespace quaver::quantize
