#include "quantize/model_layers.h"

#include <memory>

#include "base/cat.h"
#include "nn/weight_source.h"

namespace quaver::quantize {

std::vector<LayerShape> quantizable_layers(const models::CausalLm& shell, const Checkpoint& checkpoint) {
  nn::WeightSource shapes(checkpoint, {.device = at::kMeta, .keep_quantized = false});
  std::vector<LayerShape> layers;
  for (int64_t index = 0; index < shell.info().num_layers; ++index) {
    const std::string prefix = cat(shell.info().blocks_prefix, ".", index, ".");
    std::unique_ptr<models::DecoderBlock> block = shell.make_block(index, shapes);
    for (const auto& linear : block->linears())
      layers.push_back({.name = prefix + linear.name,
                        .out = linear.linear->out_features(),
                        .in = linear.linear->in_features(),
                        .fused = cat(prefix, linear.fusion_group)});
  }
  return layers;
}

}  // namespace quaver::quantize
