// The attention part of a decoder layer as the layer sees it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/llm/causal_lm.h"
#include "models/llm/decoder_config.h"

namespace quaver::models {

class BlockAttention {
 public:
  virtual ~BlockAttention() = default;
  virtual at::Tensor forward(const at::Tensor& x, const StepContext& step) const = 0;  // [tokens, hidden]
  // Appends its layers as DecoderBlock::linears gives them; fusion groups are below kFeedForwardGroup.
  virtual void add_linears(std::vector<DecoderBlock::NamedLinear>& out) = 0;
  virtual void prepare() const = 0;
};

// The first fusion group of a decoder layer's feed-forward part.
constexpr int kFeedForwardGroup = 4;

}  // namespace quaver::models
