#include "models/text_encoder/text_encoder.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>

#include <algorithm>

#include "models/llm/config_reader.h"
#include "models/llm/decoder_config.h"
#include "models/text_encoder/offloaded_block.h"
#include "models/token_ids.h"

namespace quaver::models {

void TextEncoder::load_blocks(nn::WeightSource& source) {
  blocks_.clear();
  if (source.options().offload) offload_ = std::make_unique<nn::LayerOffload>(source.options().device);
  for (int64_t i = 0; i < info().num_blocks; ++i) {
    std::unique_ptr<TextBlock> block = make_block(i, source);
    blocks_.push_back(offload_ ? offloaded(std::move(block), *offload_) : std::move(block));
  }
}

std::vector<NamedLinear> TextEncoder::linears() const {
  std::vector<NamedLinear> all;
  for (int64_t i = 0; i < info().num_blocks; ++i)
    for (NamedLinear& layer : block(i).linears()) {
      layer.name = cat(info().blocks_prefix, ".", i, ".", layer.name);
      all.push_back(std::move(layer));
    }
  return all;
}

void TextEncoder::prepare() const {
  for (const auto& block : blocks_) block->prepare();
}

TextRows TextEncoder::encode(const at::Tensor& ids) const {
  const nn::OffloadPass pass(offload_.get());
  const TextContext shared = context(ids.size(1));
  at::Tensor hidden = embed(ids);
  for (const auto& block : blocks_) hidden = block->forward(hidden, shared);
  return output(hidden, ids);
}

TextRows TextEncoder::forward(const at::Tensor& ids, std::span<const int64_t> lengths) const {
  const int64_t batch = ids.size(0), tokens = ids.size(1), limit = info().max_tokens;
  require(tokens > 0, ErrorKind::kInvalidInput, "a prompt has no tokens");
  require(limit == 0 || tokens <= limit, ErrorKind::kInvalidInput, "a prompt has ", tokens,
          " tokens, and its encoder takes at most ", limit);
  check_token_ids(ids, info().vocab_size);
  if (lengths.empty()) return encode(ids);
  require(std::ssize(lengths) == batch, ErrorKind::kInternal, lengths.size(), " lengths for ", batch,
          " prompts");
  std::vector<at::Tensor> rows, pooled;
  for (int64_t i = 0; i < batch; ++i) {
    const int64_t length = lengths[static_cast<size_t>(i)];
    require(length > 0 && length <= tokens, ErrorKind::kInternal, "length ", length, " of ", tokens);
    TextRows entry = encode(ids.narrow(0, i, 1).narrow(1, 0, length));
    rows.push_back(at::constant_pad_nd(entry.rows, {0, 0, 0, tokens - length}));
    if (entry.pooled.defined()) pooled.push_back(entry.pooled);
  }
  return {at::cat(rows), pooled.empty() ? at::Tensor() : at::cat(pooled)};
}

std::unique_ptr<TextEncoder> make_text_encoder_shell(nn::WeightSource& source) {
  const ConfigReader config = config_of(source.checkpoint());
  const std::vector<std::string> named = config.texts("architectures");
  std::string known;
  for (const TextEncoderFamily& family : text_encoder_families()) {
    if (std::ranges::find(named, family.architecture) != named.end()) return family.make_shell(source);
    known += cat(known.empty() ? "" : ", ", family.architecture);
  }
  config.unsupported("architectures", "is ", json(named).dump(), ", expected one of: ", known);
}

std::unique_ptr<TextEncoder> load_text_encoder(nn::WeightSource& source) {
  std::unique_ptr<TextEncoder> encoder = make_text_encoder_shell(source);
  encoder->load_blocks(source);
  source.finish("");
  return encoder;
}

}  // namespace quaver::models
